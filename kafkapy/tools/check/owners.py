"""The owners of log directories, by the ids in their meta.properties and in metadata.db.

A broker has one metadata.db, in any of its directories. If a check finds none or several, it cannot know
which directories belong together, and compares each metadata.db only with its own directory. If a few
characters of a generated id are wrong, the id is damaged: the start takes the other id and writes the file
again (storage/disk/log_directory.py).
"""

from __future__ import annotations

from kafkapy.storage.disk.checkpoints import META_PROPERTIES, MetaProperties
from kafkapy.storage.disk.directory_names import METADATA_FILE
from kafkapy.storage.disk.log_directory import is_damaged_id
from kafkapy.tools.check.finding import Finding, Severity

_REPAIRED = "The next start writes it again, with the other id."
_DAMAGED = (
    "kafkapy does not start with both: correct the file that is wrong, or name directories of one broker."
)


class Owners:
    """The ids in the directories of a check."""

    def __init__(self) -> None:
        self._metas: dict[str, MetaProperties] = {}
        self._clusters: dict[str, str] = {}

    def add_directory(self, path: str, meta: MetaProperties | None) -> None:
        """Add a directory with its meta.properties, if the file can be read."""
        if meta is not None:
            self._metas[path] = meta

    def add_metadata(self, path: str, cluster_id: str | None) -> None:
        """Add the cluster of the metadata.db in a directory, if there is one."""
        if cluster_id is not None:
            self._clusters[path] = cluster_id

    def compare(self) -> list[Finding]:
        """Return a finding for each contradiction."""
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
    repaired = is_damaged_id(own, others)
    severity, remedy = (Severity.REPAIRED, _REPAIRED) if repaired else (Severity.DAMAGED, _DAMAGED)
    said = f"it names the {what} {own}, and {other} the {what} {others}"
    return [Finding(severity, f"{path}/{META_PROPERTIES}", said, remedy)]
