"""Reading a log by offset, into file slices.

A read stays within one segment and ends between two batches: at the reader's upper bound, at the end of the
segment, or before `max_bytes`. Apache Kafka's reads end inside the last batch, which every client then
discards. Ending between batches costs no more, since the index has a position nearby, and the position of the
next read is then known. A few such positions are remembered, so that a consumer that reads on needs no
search. A read also ends before bytes that are not checked yet (first_read.py), and before damage.

Compaction leaves batches without records (cleaning/batch_filter.py), and segments with only such batches. A
consumer's read skips them if it would return nothing else: librdkafka takes an answer without records for a
batch that did not fit. It then asks for twice as many bytes, and above 1 GiB it reports an error. (In Apache
Kafka these segments are empty files, which a fetch skips.)
"""

from __future__ import annotations

from typing import NamedTuple

from kafkapy.protocol.records import HEADER_SIZE, iter_headers
from kafkapy.storage.damage.damage import DamagedOffsetsError, holding
from kafkapy.storage.damage.policy import SERVE_AROUND, DamagePolicy, DamageTruncatesError
from kafkapy.storage.disk.errors import NotReadyError
from kafkapy.storage.disk.files import FileSlice
from kafkapy.storage.log.batches import BadBatchError
from kafkapy.storage.log.epochs import LeaderEpochCache
from kafkapy.storage.log.first_read import SegmentBounds, check_around, check_from
from kafkapy.storage.log.segment import Segment
from kafkapy.storage.log.segments import Segments

_REMEMBERED = 16

_MOST_EMPTY = 1000
"""The most batches without records in a segment, and the most such segments, that a read skips.

So a read does not hold the event loop for long. The reader skips the rest with its next reads.
"""


class TimestampOffset(NamedTuple):
    """A record's timestamp and offset, and the leader epoch of its batch (-1 if it has none)."""

    timestamp: int
    offset: int
    leader_epoch: int


class LogRead(NamedTuple):
    """Complete batches in a file, and the offset after them."""

    slice: FileSlice
    end_offset: int


class LogReader:
    """Finds offsets in the segments of a log, and remembers the results of searches."""

    __slots__ = ("_by_timestamp", "_leader_epochs", "_positions", "_segments", "changes", "damage_policy")

    def __init__(self, segments: Segments, leader_epochs: LeaderEpochCache) -> None:
        self._segments = segments
        self._leader_epochs = leader_epochs
        self._positions: dict[int, tuple[Segment, int]] = {}
        """By offset: the segment and position at which its batch starts, or will start."""
        self._by_timestamp: dict[int, TimestampOffset] = {}
        """The results of timestamp searches. Later appends do not change them."""
        self.changes = 0
        """How often segments were truncated, removed, replaced or renamed."""
        self.damage_policy: DamagePolicy = SERVE_AROUND
        """Decides what to do about damage that a read finds."""

    def forget(self) -> None:
        """Forget positions and answers: segments were truncated, removed, replaced or renamed."""
        self.changes += 1
        self._positions.clear()
        self._by_timestamp.clear()

    def remember(self, offset: int, segment: Segment, position: int) -> None:
        """Remember that the batch with `offset` starts, or will start, at `position`."""
        positions = self._positions
        if offset not in positions and len(positions) >= _REMEMBERED:
            del positions[next(iter(positions))]
        positions[offset] = (segment, position)

    def read(
        self,
        offset: int,
        max_bytes: int,
        upper_bound: int,
        log_end_offset: int,
        min_one_batch: bool,
        has_every_offset: bool,
    ) -> LogRead | None:
        """Batches from the one that holds `offset`, all below `upper_bound`, or None.

        `has_every_offset` says that the log was never compacted, so that no offset is missing.

        Raises:
            BadBatchError: the segment is damaged.
            DamagedOffsetsError: `offset` is damaged.
            DamageTruncatesError: the log has to be truncated at damage first.
            OSError: the disk failed.
        """
        found = self._positions.get(offset)
        if found is not None and found[1] >= found[0].size:
            following = self._segments.after(found[0])
            goes_on = following is not None and following.base_offset == offset and following.size > 0
            found = (following, 0) if following is not None and goes_on else None
        found = found or self._find(offset, log_end_offset, has_every_offset)
        if found is None:
            return None
        segment, position = found
        limit, end_offset = self._limit(segment, upper_bound, log_end_offset)
        if segment.unchecked is not None or segment.damage:
            limit, end_offset = self._good_until(
                segment, position, offset, limit, end_offset, log_end_offset, has_every_offset
            )
            position = _after_damage(segment, position)
        if limit <= position:
            return None
        if limit - position > max_bytes:
            read_end, next_offset = segment.find_read_end(position, max_bytes, limit)
            if next_offset is not None:
                limit, end_offset = read_end, next_offset
            elif min_one_batch:
                first = next(segment.places(position))
                limit, end_offset = position + first.size, first.last_offset + 1
            else:
                return None
        if not segment.damage:
            self.remember(end_offset, segment, limit)
        return LogRead(segment.slice(position, limit - position), end_offset)

    def past_empty(
        self,
        found: LogRead,
        max_bytes: int,
        upper_bound: int,
        log_end_offset: int,
        min_one_batch: bool,
        has_every_offset: bool,
    ) -> LogRead | None:
        """Skip batches without records after `found`, and return the first read that has records.

        If there is none below `upper_bound`, return the last read. Return None if the next batch is larger
        than `max_bytes` and `min_one_batch` is not set. Raises as `read`.
        """
        for _ in range(_MOST_EMPTY):
            try:
                if found.end_offset >= upper_bound or not self._is_empty(found.slice):
                    break
                following = self.read(
                    found.end_offset, max_bytes, upper_bound, log_end_offset, min_one_batch, has_every_offset
                )
            except (DamageTruncatesError, NotReadyError):
                found.slice.release()
                raise
            except (OSError, BadBatchError, DamagedOffsetsError):
                break  # the reader gets the error with its next read, which begins there
            if following is None and min_one_batch:
                break
            found.slice.release()
            if following is None:
                return None
            found = following
        return found

    def _find(self, offset: int, log_end_offset: int, has_every_offset: bool) -> tuple[Segment, int] | None:
        """The segment and position of the first batch whose last offset is at or above `offset`."""
        segment: Segment | None = self._segments.floor(offset)
        while segment is not None:
            if segment.unchecked is not None:
                bounds = self._bounds(segment, log_end_offset, has_every_offset)
                check_around(segment, offset, self.damage_policy, **bounds)
            if segment.damage and (damaged := holding(segment.damage, offset)):
                raise DamagedOffsetsError(segment.path, damaged)
            place = segment.find(offset)
            if place is not None:
                return segment, place.position
            segment = self._segments.after(segment)
        return None

    def _good_until(
        self,
        segment: Segment,
        position: int,
        offset: int,
        limit: int,
        end_offset: int,
        log_end_offset: int,
        has_every_offset: bool,
    ) -> tuple[int, int]:
        """The position and offset at which a read from `position` has to stop.

        It stops before unchecked or damaged bytes, and at `limit`.

        Raises:
            DamagedOffsetsError: `position` itself is damaged.
        """
        if segment.unchecked is not None and position < segment.unchecked.size:
            bounds = self._bounds(segment, log_end_offset, has_every_offset)
            checked = check_from(
                segment, position, self.damage_policy, expected=segment.base_offset, **bounds
            )
            if checked.end < min(limit, segment.unchecked.size):
                limit, end_offset = checked.end, checked.end_offset
        damaged = holding(segment.damage, offset)
        if damaged is not None:
            self._positions.pop(offset, None)
            raise DamagedOffsetsError(segment.path, damaged)
        for damaged in segment.damage:
            if position < damaged.position < limit:
                return damaged.position, damaged.first_offset
        return limit, end_offset

    def _bounds(self, segment: Segment, log_end_offset: int, has_every_offset: bool) -> SegmentBounds:
        """The facts about a segment that are known without reading it."""
        following, epochs = self._segments.after(segment), self._leader_epochs
        first_epoch = epochs.epoch_for_offset(segment.base_offset)
        if following is None:
            return {
                "first_epoch": first_epoch,
                "end_offset": log_end_offset,
                "end_epoch": epochs.latest_epoch,
                "has_every_offset": False,  # no segment comes after it that could begin too late
            }
        return {
            "first_epoch": first_epoch,
            "end_offset": following.base_offset,
            "end_epoch": epochs.epoch_for_offset(following.base_offset),
            "has_every_offset": has_every_offset,
        }

    def _limit(self, segment: Segment, upper_bound: int, log_end_offset: int) -> tuple[int, int]:
        """The position and offset in `segment` at which a reader has to stop."""
        following = self._segments.after(segment)
        end_offset = log_end_offset if following is None else following.base_offset
        if upper_bound >= end_offset:
            return segment.size, end_offset
        known = self._positions.get(upper_bound)
        if known is not None and known[0] is segment:
            return known[1], upper_bound
        place = segment.find(upper_bound)
        position = segment.size if place is None else place.position
        self.remember(upper_bound, segment, position)
        return position, upper_bound

    def _is_empty(self, batches: FileSlice) -> bool:
        """Whether none of these batches has records: each is then only a header."""
        count, rest = divmod(batches.nbytes, HEADER_SIZE)
        if rest or count > _MOST_EMPTY:
            return False
        if count == 1:
            return True
        data = self._segments.active.files.read_at(batches.file, batches.nbytes, batches.position)
        return all(header.record_count == 0 for _, header in iter_headers(data))

    # --- by timestamp ---------------------------------------------------------------------------------------

    def known_timestamp(self, timestamp: int, log_start_offset: int) -> TimestampOffset | None:
        """The remembered result of a search for `timestamp`; None if there is none."""
        known = self._by_timestamp.get(timestamp)
        return known if known is not None and known.offset >= log_start_offset else None

    def remember_timestamp(self, timestamp: int, found: TimestampOffset) -> None:
        """Remember that `found` is the first record at least as new as `timestamp`."""
        if len(self._by_timestamp) >= _REMEMBERED:
            self._by_timestamp.clear()
        self._by_timestamp[timestamp] = found


def _after_damage(segment: Segment, position: int) -> int:
    """The position after the damage at `position`, or `position` itself if it is not damaged.

    An offset that is not lost may be looked for there: damage may be bytes between two batches.
    """
    for damaged in segment.damage:
        if damaged.position <= position < damaged.end_position:
            return damaged.end_position
    return position
