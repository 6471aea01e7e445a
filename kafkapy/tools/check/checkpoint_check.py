"""The checkpoints of a log directory: their syntax, offsets and surplus lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

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
    """The offsets by partition, and findings about the files."""

    recovery_points: dict[TopicPartition, int] = field(default_factory=dict)
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    cleaner_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def by_name(self) -> dict[str, dict[TopicPartition, int]]:
        """The offsets of each file, by its name."""
        return {
            RECOVERY_POINTS: self.recovery_points,
            LOG_START_OFFSETS: self.log_starts,
            HIGH_WATERMARKS: self.high_watermarks,
            CLEANER_OFFSETS: self.cleaner_offsets,
        }


def read_checkpoints(files: ReadOnlyFiles, directory: str) -> Checkpoints:
    """Read all checkpoints of the directory.

    Raises:
        OSError: the disk failed.
    """
    checkpoints = Checkpoints()
    for name, offsets in checkpoints.by_name().items():
        path = f"{directory}/{name}"
        try:
            offsets.update(read_offsets(files, path))
        except CorruptCheckpointError as error:
            what = str(error).removeprefix(f"{path}: ")
            checkpoints.findings.append(Finding(Severity.REPAIRED, path, what, f"{_WITHOUT[name]}."))
    return checkpoints


def lines_without_partition(
    directory: str, checkpoints: Checkpoints, existing: Iterable[TopicPartition]
) -> list[Finding]:
    """Return findings for lines of partitions that do not exist.

    A crash may leave lines of deleted topics.
    """
    known = set(existing)
    findings = []
    for name, offsets in checkpoints.by_name().items():
        gone = sorted(set(offsets) - known)
        if gone:
            shown = ", ".join(map(str, gone[:_SHOWN]))
            if len(gone) > _SHOWN:
                shown += f" and {len(gone) - _SHOWN} more"
            what = f"it has lines for partitions that do not exist: {shown}"
            remedy = "The broker drops them; restore the partitions that should exist."
            findings.append(Finding(Severity.HARMLESS, f"{directory}/{name}", what, remedy))
    return findings
