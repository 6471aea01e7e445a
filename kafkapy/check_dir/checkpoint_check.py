"""The checkpoints of a log directory: their syntax, what they say, lines for what is not there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kafkapy.check_dir.finding import Finding, Severity
from kafkapy.log_source.read_only_files import ReadOnlyFiles
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CorruptCheckpointError,
    read_offsets,
)
from kafkapy.storage.offset_checkpoint import CLEANER_OFFSETS

_SHOWN = 5

# What a broker does without one.
_WITHOUT = {
    RECOVERY_POINTS: "The next start reads every log of the directory again, after an unclean stop",
    LOG_START_OFFSETS: "Logs begin at their first segment: records that were deleted may show again",
    HIGH_WATERMARKS: "The next start takes the end of each recovered log for it",
    CLEANER_OFFSETS: "Compaction reads every log from its start again",
}


@dataclass(slots=True)
class Checkpoints:
    """Offsets by partition, and what is wrong with the files."""

    recovery_points: dict[TopicPartition, int] = field(default_factory=dict)
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    cleaner_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def by_name(self) -> dict[str, dict[TopicPartition, int]]:
        """As the files are named."""
        return {
            RECOVERY_POINTS: self.recovery_points,
            LOG_START_OFFSETS: self.log_starts,
            HIGH_WATERMARKS: self.high_watermarks,
            CLEANER_OFFSETS: self.cleaner_offsets,
        }


def read_checkpoints(files: ReadOnlyFiles, directory: str) -> Checkpoints:
    """Read all of them.

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
    directory: str, checkpoints: Checkpoints, there: Iterable[TopicPartition]
) -> list[Finding]:
    """Lines for partitions that are not there. After a crash they may be left of topics that were deleted."""
    known = set(there)
    findings = []
    for name, offsets in checkpoints.by_name().items():
        gone = sorted(set(offsets) - known)
        if gone:
            shown = ", ".join(map(str, gone[:_SHOWN]))
            if len(gone) > _SHOWN:
                shown += f" and {len(gone) - _SHOWN} more"
            what = f"it has lines for partitions that are not there: {shown}"
            remedy = "The broker drops them; restore what should be there."
            findings.append(Finding(Severity.HARMLESS, f"{directory}/{name}", what, remedy))
    return findings
