"""How severe a problem at an offset of a log is: what the next start would do.

    after a clean stop       only what is obviously wrong is read again, so damage stays
    after an unclean stop    the log is recovered from the recovery point on: it is truncated at the first bad
                             batch, and indexes, epochs and producer states are rebuilt
    below both recovery point and high watermark
                             everything was on disk: damage is noted, and what lies around it is served
    below one of them        records were acknowledged: they are lost, although the log is truncated there
    a broker is running      as after an unclean stop, since its checkpoints are as much out of date

Source: storage/recovery/recovery.py, storage/damage/damage.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkapy.tools.check.finding import Severity

RESTORE = "Restore the partition from a replica or a backup"
READ_AGAIN = (
    "Stop the broker, remove .kafka_cleanshutdown and the partition's line in "
    "recovery-point-offset-checkpoint: the next start rebuilds it from the log"
)


@dataclass(frozen=True, slots=True)
class Promises:
    """What is known to have been on disk."""

    clean: bool
    """Whether the broker stopped cleanly."""
    recovery_point: int
    high_watermark: int
    all_synced: bool = False
    """Whether it is KRaft's log: each commit was on disk, although no checkpoint says so."""

    @property
    def floor(self) -> int:
        """The offset below which nothing is truncated: both files say that it was on disk.

        Recovery has the same rule (recovery.py).
        """
        if not self.high_watermark:
            return self.recovery_point
        return min(self.recovery_point, self.high_watermark)

    def is_cut_at(self, offset: int) -> bool:
        """Return whether the next start truncates the log at a bad batch there."""
        return not self.clean and offset >= self.floor

    def of_record(self, offset: int) -> Severity:
        """Return the severity of a batch that cannot be read."""
        if self.clean or self.all_synced or offset < max(self.recovery_point, self.high_watermark):
            return Severity.DAMAGED
        return Severity.REPAIRED

    def reads_again(self, end_offset: int) -> bool:
        """Return whether the next start reads a segment that ends there and rebuilds its indexes.

        This includes a segment that ends at the recovery point: see recovery.py.
        """
        return not self.clean and end_offset >= self.recovery_point
