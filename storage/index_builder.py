"""Building the indexes of a segment anew from its batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkapy.storage.segment import Segment


class IndexBuilder:
    """Collects index entries and timestamps from a segment's batches in order, as appending them would
    have."""

    __slots__ = ("_last_entry", "_segment")

    def __init__(self, segment: Segment) -> None:
        segment.start_rebuild()
        self._segment = segment
        self._last_entry = 0

    def add(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """The next batch."""
        segment = self._segment
        if position == 0:
            segment._rolling_timestamp = max_timestamp
        if max_timestamp > segment._max_timestamp:
            segment._max_timestamp, segment._max_timestamp_offset = max_timestamp, last_offset
        if position - self._last_entry > segment._index_interval_bytes and not segment.offset_index.is_full:
            segment.offset_index.append(last_offset, position)
            if not segment.time_index.is_full:
                segment.time_index.maybe_append(segment._max_timestamp, segment._max_timestamp_offset)
            self._last_entry = position

    def finish(self) -> None:
        """No batch follows."""
        self._segment.finish()
        self._segment.offset_index.truncate_file()
        self._segment.time_index.truncate_file()
