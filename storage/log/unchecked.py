"""The bytes of a segment that were not checked since the broker started (first_read.py)."""

from __future__ import annotations

from typing import Final, NamedTuple

_MOST_RANGES: Final = 64


class CheckedRange(NamedTuple):
    """Bytes of a segment that were checked, and what comes after them."""

    start: int
    end: int
    end_offset: int
    leader_epoch: int


class Unchecked:
    """The unchecked bytes of a segment: the first `size` bytes without the checked ranges."""

    __slots__ = ("ranges", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.ranges: tuple[CheckedRange, ...] = ()

    def range_at(self, position: int) -> CheckedRange | None:
        """The checked range that contains `position`."""
        for checked in self.ranges:
            if checked.start <= position < checked.end:
                return checked
        return None

    def range_before(self, position: int) -> CheckedRange | None:
        """The checked range that ends at `position`."""
        for checked in self.ranges:
            if checked.end == position:
                return checked
        return None

    def add(self, new: CheckedRange) -> None:
        """Add a range, joined with those that it touches.

        If there are too many ranges, the smallest is dropped.
        """
        apart: list[CheckedRange] = []
        for checked in self.ranges:
            if checked.end < new.start or checked.start > new.end:
                apart.append(checked)
            else:
                last = max(checked, new, key=lambda each: each.end)
                new = last._replace(start=min(checked.start, new.start))
        if len(apart) >= _MOST_RANGES:
            apart.remove(min(apart, key=lambda each: each.end - each.start))
        self.ranges = (*apart, new)
