"""The checkpoints of a log directory: their syntax, offsets and surplus lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.disk.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CorruptCheckpointError,
    read_offsets,
)
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.tools.check.finding import Finding, Severity

_SHOWN = 5

# What a broker does if the file is missing.
_WITHOUT = {
    RECOVERY_POINTS: "The next start reads every log of the directory again, after an unclean stop",
    LOG_START_OFFSETS: "Logs begin at their first segment: deleted records may come back",
    HIGH_WATERMARKS: "The next start takes the log end offset of each recovered log",
    CLEANER_OFFSETS: "Compaction reads every log from its start again",
}


@dataclass(slots=True)
class Checkpoints:
    """The offsets in the checkpoints of a directory, and findings about the files."""

    offsets: dict[str, dict[TopicPartition, int]]
    """The offset of each partition, by the name of the file."""
    findings: list[Finding]

    def without_partition(self, directory: str, existing: Iterable[TopicPartition]) -> Iterator[Finding]:
        """Yield findings for lines of partitions that do not exist.

        A crash may leave lines of deleted topics.
        """
        known = set(existing)
        for name, offsets in self.offsets.items():
            gone = sorted(set(offsets) - known)
            if gone:
                shown = ", ".join(map(str, gone[:_SHOWN]))
                if len(gone) > _SHOWN:
                    shown += f" and {len(gone) - _SHOWN} more"
                what = f"it has lines for partitions that do not exist: {shown}"
                remedy = "The broker drops them; restore the partitions that should exist."
                yield Finding(Severity.HARMLESS, f"{directory}/{name}", what, remedy)


def read_checkpoints(files: ReadOnlyFiles, directory: str) -> Checkpoints:
    """Read all checkpoints of the directory; one that is damaged has no offsets.

    Raises:
        OSError: the disk failed.
    """
    checkpoints = Checkpoints({}, [])
    for name, remedy in _WITHOUT.items():
        path = f"{directory}/{name}"
        try:
            checkpoints.offsets[name] = read_offsets(files, path)
        except CorruptCheckpointError as error:
            checkpoints.offsets[name] = {}
            checkpoints.findings.append(Finding(Severity.REPAIRED, path, error.reason, f"{remedy}."))
    return checkpoints
