"""The damage that a broker has noted compared with what a check finds.

storage/damage/damage.py describes the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kafkapy.storage.damage.damage import DAMAGED_OFFSETS, DamagedRange, read_damage
from kafkapy.storage.disk.checkpoints import CorruptCheckpointError
from kafkapy.storage.disk.files import FileSystem
from kafkapy.tools.check.finding import Finding, Severity
from kafkapy.tools.check.segment_check import BadPlace, Gap


class KnownDamage:
    """The noted ranges of one partition, by the base offset of their segments."""

    def __init__(self, files: FileSystem, directory: str) -> None:
        """Read the file of the partition."""
        self.path = f"{directory}/{DAMAGED_OFFSETS}"
        self.findings: list[Finding] = []
        self._ranges: Mapping[int, tuple[DamagedRange, ...]] = {}
        try:
            self._ranges = read_damage(files, directory)
        except CorruptCheckpointError as error:
            remedy = "Damage is noted again when it is read."
            self.findings.append(Finding(Severity.REPAIRED, self.path, error.reason, remedy))

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

    def compare(self, base_offset: int, bad: Sequence[BadPlace], end_offset: int) -> Iterator[Finding]:
        """Yield findings for the noted ranges of a segment that ends before `end_offset`."""
        for known in self._ranges.get(base_offset, ()):
            if known.position == known.end_position:
                if known.first_offset >= end_offset:
                    what = f"{_offsets(known)} are lost, the segment was truncated"
                    remedy = "Stop the broker, restore the segment from a backup and remove this file."
                    yield Finding(Severity.DAMAGED, self.path, what, remedy, offset=known.first_offset)
                    continue
            elif any(
                known.position < each.lost.end_position and each.lost.position < known.end_position
                for each in bad
            ):
                continue  # the check has a finding for it already
            what = f"it says that {_offsets(known)} are damaged, but they are good"
            remedy = "Stop the broker and remove the file: until then consumers get CORRUPT_MESSAGE for them."
            yield Finding(Severity.DAMAGED, self.path, what, remedy, offset=known.first_offset)


def _offsets(known: DamagedRange) -> str:
    return f"offsets {known.first_offset} to {known.end_offset - 1}"
