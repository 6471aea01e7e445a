"""The segments of a log in offset order.

There is always at least one. The last one is the active segment, which is written.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from kafkapy.storage.log.segment import Segment
from kafkapy.storage.log.txn_index import AbortedTxn


class Segments:
    """A sorted list of segments, found by offset."""

    __slots__ = ("_bases", "_segments", "active", "closed_bytes")

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        self.closed_bytes = sum(segment.size for segment in segments[:-1])
        """Bytes in all segments but the active one."""

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return self.closed_bytes + self.active.size

    def floor(self, offset: int) -> Segment:
        """The segment that holds `offset`, if any does.

        It is the last one whose base offset is not above `offset`, or the first one.
        """
        active = self.active
        if offset >= active.base_offset:
            return active
        return self._segments[max(bisect_right(self._bases, offset) - 1, 0)]

    def after(self, segment: Segment) -> Segment | None:
        """The segment after `segment`; None after the active one."""
        if segment is self.active:
            return None
        index = bisect_right(self._bases, segment.base_offset)
        return self._segments[index] if index < len(self._segments) else None

    def covering(self, start: int) -> list[Segment]:
        """The segments that hold offsets at or above `start`."""
        return self._segments[max(bisect_right(self._bases, start) - 1, 0) :]

    def above(self, offset: int) -> list[Segment]:
        """The segments whose base offset is above `offset`."""
        return self._segments[bisect_right(self._bases, offset) :]

    def aborted_transactions(self, first: int, end: int) -> list[AbortedTxn]:
        """The aborted transactions that have records in offsets `first` to `end`, exclusive."""
        aborted: list[AbortedTxn] = []
        for segment in self.covering(first):
            if segment.txn_index.collect(first, end, aborted):
                break
        return aborted

    def add(self, segment: Segment) -> None:
        """Add a new active segment after the others."""
        self.closed_bytes += self.active.size
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def remove(self, segment: Segment) -> None:
        """Remove a segment, which must not be the only one."""
        index = bisect_left(self._bases, segment.base_offset)
        del self._segments[index], self._bases[index]
        if segment is self.active:
            self.active = segment = self._segments[-1]
        self.closed_bytes -= segment.size

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace adjacent segments by `new`.

        The active segment must not be one of them.
        """
        index = bisect_left(self._bases, old[0].base_offset)
        self._segments[index : index + len(old)] = [new]
        self._bases[index : index + len(old)] = [new.base_offset]
        self.closed_bytes += new.size - sum(segment.size for segment in old)

    def replace_all(self, segment: Segment) -> None:
        """Replace all segments by `segment`."""
        self._segments = [segment]
        self._bases = [segment.base_offset]
        self.active = segment
        self.closed_bytes = 0
