"""How bad something is at an offset of a log: what the next start would make of it.

    after a clean stop       nothing is read again but what cannot be right at first sight: damage stays
    after an unclean stop    everything above the recovery point is read again; the log is cut at the first
                             bad batch, indexes, epochs and producer states are written anew
    below both recovery point and high watermark
                             everything was on disk: damage is set aside, what lies around it is served
    below one of them        records were acknowledged: they are lost, although the log is cut there
    a broker is running      as after an unclean stop; its checkpoints are that much out of date

Source: storage/recovery.py, storage/damage.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkapy.check_dir.finding import Severity

RESTORE = "Restore the partition from a replica or a backup"
READ_AGAIN = (
    "Stop the broker, remove .kafka_cleanshutdown and the partition's line in "
    "recovery-point-offset-checkpoint: the next start writes it anew from the log"
)


@dataclass(frozen=True, slots=True)
class Promises:
    """What is known to have been on disk."""

    clean: bool
    """The broker stopped in order."""
    recovery_point: int
    high_watermark: int
    all_synced: bool = False
    """KRaft's log: each commit was on disk, and no checkpoint says so."""

    @property
    def floor(self) -> int:
        """Below, nothing is cut: both files say that it was on disk (as in recovery.py)."""
        if not self.high_watermark:
            return self.recovery_point
        return min(self.recovery_point, self.high_watermark)

    def is_cut_at(self, offset: int) -> bool:
        """Whether the next start cuts the log at a bad batch there."""
        return not self.clean and offset >= self.floor

    def of_record(self, offset: int) -> Severity:
        """Of a batch that cannot be read."""
        if self.clean or self.all_synced or offset < max(self.recovery_point, self.high_watermark):
            return Severity.DAMAGED
        return Severity.REPAIRED

    def reads_again(self, end_offset: int) -> bool:
        """Whether the next start reads a segment again that ends there, and so writes its indexes anew.

        Also one that ends at the recovery point: see recovery.py.
        """
        return not self.clean and end_offset >= self.recovery_point
