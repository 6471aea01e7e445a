"""Building the indexes of a segment anew from its batches."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafkapy.storage.batches import BadBatchError
from kafkapy.storage.offset_index import MAX_RELATIVE_OFFSET
from kafkapy.storage.time_index import NO_TIMESTAMP

if TYPE_CHECKING:
    from kafkapy.storage.segment import Segment

logger = logging.getLogger(__name__)


def rebuild_indexes(segment: Segment) -> None:
    """Write the indexes of a segment anew from the batch headers, as far as they can be read.

    Raises:
        OSError: the disk failed.
    """
    lowest, highest = segment.base_offset, segment.base_offset + MAX_RELATIVE_OFFSET
    try:
        builder = IndexBuilder(segment)
        try:
            for place in segment.places():
                if lowest <= place.base_offset <= place.last_offset <= highest:  # else it has rotted
                    builder.add(place.position, place.size, place.last_offset, place.max_timestamp)
        except BadBatchError as error:
            logger.warning("%s is indexed up to damage: %s", segment.path, error)
        builder.finish()
    except BaseException:
        segment.forget_indexes()  # half an index would be taken for a whole one
        raise


class IndexBuilder:
    """Empties the indexes, and collects entries and timestamps from a segment's batches in order, as
    appending them would have."""

    __slots__ = ("_last_entry", "_segment")

    def __init__(self, segment: Segment) -> None:
        segment.offset_index.reset()
        segment.time_index.reset()
        segment._max_timestamp, segment._max_timestamp_offset = NO_TIMESTAMP, segment.base_offset
        segment._rolling_timestamp = NO_TIMESTAMP
        segment._bytes_since_index_entry = 0
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
