"""The damage that a broker has noted compared with what a check finds.

storage/damage/damage.py describes the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkapy.storage.damage.damage import DAMAGED_OFFSETS, DamagedRange, load_damage
from kafkapy.storage.disk.checkpoints import CorruptCheckpointError, read_numbers
from kafkapy.storage.disk.files import FileSystem
from kafkapy.tools.check.finding import Finding, Severity
from kafkapy.tools.check.segment_report import BadPlace, Gap

_COLUMNS = 5


class KnownDamage:
    """The noted ranges of one partition, by the base offset of their segments."""

    def __init__(self, files: FileSystem, directory: str) -> None:
        """Read the file of the partition.

        Raises:
            OSError: the disk failed.
        """
        self.path = f"{directory}/{DAMAGED_OFFSETS}"
        self.findings: list[Finding] = []
        try:
            read_numbers(files, self.path, columns=_COLUMNS)
        except CorruptCheckpointError as error:
            what = str(error).removeprefix(f"{self.path}: ")
            self.findings.append(
                Finding(Severity.REPAIRED, self.path, what, "Damage is noted again when it is read.")
            )
        else:
            self._ranges: Mapping[int, tuple[DamagedRange, ...]] = load_damage(files, directory)
            return
        self._ranges = {}

    def end_offset(self, base_offset: int) -> int:
        """Return the offset after the last one that a segment has lost, or 0 if none is noted."""
        return max((each.end_offset for each in self._ranges.get(base_offset, ())), default=0)

    def explains(self, gap: Gap) -> bool:
        """Return whether the missing offsets are noted as damage."""
        return any(
            each.first_offset <= gap.first and gap.last < each.end_offset
            for ranges in self._ranges.values()
            for each in ranges
        )

    def compare(self, base_offset: int, bad: Sequence[BadPlace], end_offset: int) -> list[Finding]:
        """Return findings for the noted ranges of a segment that ends before `end_offset`."""
        found = []
        for known in self._ranges.get(base_offset, ()):
            if known.position == known.end_position:
                if known.first_offset >= end_offset:
                    what = f"{_offsets(known)} are lost, the segment was truncated"
                    remedy = "Stop the broker, restore the segment from a backup and remove this file."
                    found.append(
                        Finding(Severity.DAMAGED, self.path, what, remedy, offset=known.first_offset)
                    )
                    continue
            elif any(
                known.position < each.position + each.size and each.position < known.end_position
                for each in bad
            ):
                continue  # the check has a finding for it already
            what = f"it says that {_offsets(known)} are damaged, but they are good"
            remedy = "Stop the broker and remove the file: until then consumers get CORRUPT_MESSAGE for them."
            found.append(Finding(Severity.DAMAGED, self.path, what, remedy, offset=known.first_offset))
        return found


def _offsets(known: DamagedRange) -> str:
    return f"offsets {known.first_offset} to {known.end_offset - 1}"
