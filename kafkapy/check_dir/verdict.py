"""How bad something is at an offset of a log: what the next start would make of it.

    after a clean stop       nothing is read again but what cannot be right at first sight: damage stays
    after an unclean stop    everything above the recovery point is read again; the log is cut at the first
                             bad batch, indexes, epochs and producer states are written anew
    below a high watermark   records were acknowledged, whatever the recovery point says
    a broker is running      as after an unclean stop; its checkpoints are that much out of date

Source: storage/recovery.py.
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

    def of_record(self, offset: int) -> Severity:
        """Of a batch that cannot be read."""
        if self.clean or offset < max(self.recovery_point, self.high_watermark):
            return Severity.DAMAGED
        return Severity.REPAIRED

    def reads_again(self, end_offset: int) -> bool:
        """Whether the next start reads a segment again that ends there, and so writes its indexes anew.

        Also one that ends at the recovery point: see recovery.py.
        """
        return not self.clean and end_offset >= self.recovery_point
