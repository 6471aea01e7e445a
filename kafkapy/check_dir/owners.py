"""Whose the log directories are: the ids in meta.properties, held against metadata.db and one another.

A broker has one metadata.db, in any of its directories. Where none or several are among what is checked, it
cannot be told which directories belong together: each metadata.db answers for its own directory alone. A
generated id with some characters that are wrong is one that has rotted: the start takes the other and writes
it anew (storage/log_directory.py).
"""

from __future__ import annotations

from kafkapy.check_dir.finding import Finding, Severity
from kafkapy.log_source.data_directory import METADATA_FILE
from kafkapy.storage.checkpoints import META_PROPERTIES, MetaProperties
from kafkapy.storage.log_directory import has_rotted

_REPAIRED = "The next start writes it anew, with the other id."
_DAMAGED = (
    "kafkapy does not start with both: correct the file that is wrong, or name directories of one broker."
)


class Owners:
    """The ids that the directories of a check name."""

    def __init__(self) -> None:
        self._metas: dict[str, MetaProperties] = {}
        self._clusters: dict[str, str] = {}

    def add_directory(self, path: str, meta: MetaProperties | None) -> None:
        """A directory, and what its meta.properties says where that can be read."""
        if meta is not None:
            self._metas[path] = meta

    def add_metadata(self, path: str, cluster_id: str | None) -> None:
        """The cluster of the metadata.db in a directory, where there is one."""
        if cluster_id is not None:
            self._clusters[path] = cluster_id

    def compare(self) -> list[Finding]:
        """What contradicts."""
        found = []
        for home, cluster_id in self._clusters.items():
            own = self._metas.get(home, MetaProperties())
            together = [*self._metas] if len(self._clusters) == 1 else [home]
            for path in together:
                meta = self._metas.get(path, own)
                found += _contradiction(
                    path, "cluster", meta.cluster_id, f"{home}/{METADATA_FILE}", cluster_id
                )
                found += _contradiction(
                    path, "broker", meta.node_id, f"{home}/{META_PROPERTIES}", own.node_id
                )
        return found


def _contradiction(
    path: str, what: str, own: str | int | None, other: str, others: str | int | None
) -> list[Finding]:
    if own is None or others is None or own == others:
        return []
    rotted = has_rotted(own, others)
    severity, remedy = (Severity.REPAIRED, _REPAIRED) if rotted else (Severity.DAMAGED, _DAMAGED)
    said = f"it names the {what} {own}, and {other} the {what} {others}"
    return [Finding(severity, f"{path}/{META_PROPERTIES}", said, remedy)]
