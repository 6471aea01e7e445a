"""Searching a log by time: the first record at or after a timestamp, or the newest one.

A search may read thousands of indexes, and decompress a batch of any size, so it runs in a worker thread:

    loop     `PartitionLog.search` notes the segments and the size of the active one
    thread   `run` reads views of the segments (segment_view.py), which open their own files
    loop     `result` returns the record. It raises LogChangedError if segments were truncated, removed or
             replaced meanwhile: search again

If the indexes of a segment are damaged, the search does without them; the next read of the segment rebuilds
them (index_repair.py). That their entries rise is checked once, and remembered.
The search does not see records that were appended meanwhile. The newest record is the first one with the
highest timestamp. The highest timestamps of closed segments are remembered for later searches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkapy.protocol.compression import MAX_DECOMPRESSED
from kafkapy.protocol.record_times import first_record_at, newest_record
from kafkapy.protocol.records import HEADER_SIZE, NO_TIMESTAMP, read_header
from kafkapy.storage.log.batches import BatchPlace
from kafkapy.storage.log.log_reader import TimestampOffset
from kafkapy.storage.log.log_state import LogState
from kafkapy.storage.log.segment import Segment
from kafkapy.storage.log.segment_view import SegmentView


class LogChangedError(Exception):
    """Segments were truncated, removed or replaced during a search, so it has no result."""


class TimestampSearch:
    """One search in one log.

    Make it on the event loop, call `run` in any thread, then `result` on the loop.
    """

    __slots__ = (
        "_active",
        "_changes",
        "_closed",
        "_error",
        "_found",
        "_learned",
        "_log",
        "_max_decompressed",
        "_start_offset",
        "_timestamp",
        "is_done",
    )

    def __init__(self, log: LogState, timestamp: int | None, max_decompressed: int) -> None:
        self._log = log
        self._timestamp = timestamp
        self._max_decompressed = max_decompressed
        self._start_offset = start = log.log_start_offset
        self._changes = log.reader.changes
        self._found = None if timestamp is None else log.reader.known_timestamp(timestamp, start)
        self._error: Exception | None = None
        self._closed: list[Segment] = []
        self._active: list[SegmentView] = []
        self._learned: list[tuple[Segment, SegmentView]] = []
        """Segments, each with a view that has read its highest timestamp."""
        self.is_done = self._found is not None or log.log_end_offset <= start
        """Whether the result is known, so that `run` does nothing."""
        if not self.is_done:
            *self._closed, active = log.segments.covering(start)
            if active.size:
                self._active.append(SegmentView(active, is_active=True))

    def run(self) -> None:
        """Search, in any thread.

        `result` reports errors.
        """
        if not self.is_done:
            self.is_done = True
            try:
                if self._timestamp is None:
                    self._found = newest(self._views(), self._start_offset, self._max_decompressed)
                else:
                    views = self._views(self._timestamp)
                    self._found = first_at(views, self._timestamp, self._start_offset, self._max_decompressed)
            except Exception as error:
                self._error = error

    def result(self) -> TimestampOffset | None:
        """The record that was found; None if there is none.

        Call this on the loop.

        Raises:
            LogChangedError: the log has changed meanwhile. Search again.
            KafkaError: the log is damaged, or a batch decompresses to more than the limit.
            StorageError: the disk failed.
        """
        reader = self._log.reader
        if reader.changes != self._changes:
            raise LogChangedError
        for segment, view in self._learned:
            indexes = segment.indexes
            if not indexes.knows_max_timestamp:
                indexes.learn_max_timestamp(view.max_timestamp, view.offset_of_max_timestamp)
            indexes.rises |= view.has_checked
        if self._error is not None:
            raise self._log.search_failed(self._error) from self._error
        if self._found is not None and self._timestamp is not None:
            reader.remember_timestamp(self._timestamp, self._found)
        return self._found

    def _views(self, timestamp: int = NO_TIMESTAMP) -> Iterator[SegmentView]:
        """Views of the segments that may have records at least as new as `timestamp`.

        Each is closed before the next one is made.
        """
        for segment in self._closed:
            known = segment.indexes.knows_max_timestamp
            if known and segment.max_timestamp < timestamp:
                continue
            view = SegmentView(segment)
            try:
                if not known:
                    view.read_max_timestamp()
                    self._learned.append((segment, view))
                yield view
            finally:
                view.close_files()
        for view in self._active:
            try:
                yield view
            finally:
                view.close_files()


def first_at(
    segments: Iterable[Segment], timestamp: int, start_offset: int, max_decompressed: int = MAX_DECOMPRESSED
) -> TimestampOffset | None:
    """The first record from `start_offset` on that is at least as new as `timestamp`, or None.

    Raises:
        BadBatchError, CorruptIndexError, DecodeError: a segment is damaged.
        DecompressedSizeError: a batch decompresses to more than `max_decompressed` bytes.
        OSError: the disk failed.
    """
    for segment in segments:
        if segment.max_timestamp < timestamp:
            continue
        start = segment.position_for_timestamp(timestamp, start_offset)
        for place in segment.places(start):
            if place.max_timestamp >= timestamp and place.last_offset >= start_offset:
                found = _first_record(segment, place, timestamp, start_offset, max_decompressed)
                if found is not None:
                    return found
    return None


def newest(
    segments: Iterable[Segment], start_offset: int, max_decompressed: int = MAX_DECOMPRESSED
) -> TimestampOffset | None:
    """The first record from `start_offset` on that has the highest timestamp.

    None if no record has a timestamp. Raises as `first_at`.
    """
    best: TimestampOffset | None = None
    by_time = [(segment.max_timestamp, -segment.base_offset, segment) for segment in segments]
    for timestamp, _, segment in sorted(by_time, reverse=True):
        if timestamp < 0 or (best is not None and timestamp < best.timestamp):
            break
        if best is not None and timestamp == best.timestamp and best.offset < segment.base_offset:
            continue
        try:
            found = _newest_record(segment, start_offset, max_decompressed)
        finally:
            segment.close_files()
        if found is not None and (best is None or _rank(found) > _rank(best)):
            best = found
    return best


def _rank(record: TimestampOffset) -> tuple[int, int]:
    """The sort key of a record: a later timestamp ranks higher, then a lower offset."""
    return record.timestamp, -record.offset


def _first_record(
    segment: Segment, place: BatchPlace, timestamp: int, start_offset: int, limit: int
) -> TimestampOffset | None:
    """The first record of a batch from `start_offset` on that is as new as `timestamp`."""
    for _, batch in segment.batches(place.position, place.position + place.size):
        header = read_header(batch)
        found = first_record_at(batch, header, timestamp=timestamp, start_offset=start_offset, limit=limit)
        if found is not None:
            return TimestampOffset(*found, header.partition_leader_epoch)
    return None


def _newest_of(segment: Segment, place: BatchPlace, start_offset: int, limit: int) -> TimestampOffset | None:
    """The first record with the highest timestamp of a batch, from `start_offset` on, or None."""
    for _, batch in segment.batches(place.position, place.position + place.size):
        header = read_header(batch)
        found = newest_record(batch, header, start_offset=start_offset, limit=limit)
        if found is not None:
            return TimestampOffset(*found, header.partition_leader_epoch)
    return None


def _newest_record(segment: Segment, start_offset: int, limit: int) -> TimestampOffset | None:
    """The first record that has the highest timestamp from `start_offset` on.

    None if there is none. The highest timestamp of the segment may be that of a record below `start_offset`,
    or of one that compaction removed. Then the headers of the batches are searched.
    """
    timestamp = segment.max_timestamp
    _, start = segment.lookup(segment.offset_of_max_timestamp)
    for place in segment.places(start):
        if place.max_timestamp == timestamp:
            found = _first_record(segment, place, timestamp, start_offset, limit)
            if found is not None:
                return found
            break
    best: TimestampOffset | None = None
    place_of_newest: BatchPlace | None = None
    _, start = segment.lookup(start_offset)
    for place in segment.places(start):
        if place.size == HEADER_SIZE or place.last_offset < start_offset:
            continue
        if place.base_offset < start_offset:  # its newest record may be below `start_offset`
            best = _newest_of(segment, place, start_offset, limit)
        elif place_of_newest is None or place.max_timestamp > place_of_newest.max_timestamp:
            place_of_newest = place
            if place.max_timestamp == timestamp:
                break
    if place_of_newest is not None and (best is None or place_of_newest.max_timestamp > best.timestamp):
        best = _newest_of(segment, place_of_newest, start_offset, limit)
    return best if best is not None and best.timestamp >= 0 else None
