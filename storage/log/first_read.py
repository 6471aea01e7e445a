"""The check of bytes that are read for the first time since the broker started.

Apache Kafka sends batches without checking them, so damage in a closed segment reaches consumers, and not
all of them check the CRC. This broker checks bytes (survey.py) when they are first read, if they were on disk
when the log was loaded and recovery did not read them. Batches that it appended itself were checked before.
So consumers at the end of a log cost nothing more. Old records are checked once, for all consumers;
docs/storage.md has the measured cost. `log.check.on.first.read=false` turns the check off.

A segment that is missing in the middle of a log is noticed at the end of the one before it. This works only
in logs that were never compacted, since Apache Kafka's compaction leaves gaps between segments.

A read that meets unchecked bytes checks at most a megabyte, and ends there, so that it does not hold the
event loop longer. If the bytes are not in the page cache, it checks fewer, and the next read finds more of
them there. The log's policy says what is done about damage (policy.py).
"""

from __future__ import annotations

from typing import Final, TypedDict

from kafkapy.storage.damage.damage import DamagedRange, holding
from kafkapy.storage.damage.policy import DamagePolicy
from kafkapy.storage.damage.survey import survey
from kafkapy.storage.log.batches import BadBatchError
from kafkapy.storage.log.index_file import CorruptIndexError
from kafkapy.storage.log.offset_index import MAX_RELATIVE_OFFSET
from kafkapy.storage.log.segment import Segment
from kafkapy.storage.log.unchecked import CheckedRange

_AT_ONCE: Final = 1 << 20
_COLD_AT_ONCE: Final = 128 << 10
"""The limit for bytes that are not in the page cache."""


class SegmentBounds(TypedDict):
    """The known facts about an unread segment; -1 is an unknown leader epoch."""

    first_epoch: int
    end_offset: int
    end_epoch: int
    has_every_offset: bool
    """The log has every offset up to `end_offset`: it was never compacted."""


def check_around(
    segment: Segment,
    offset: int,
    policy: DamagePolicy,
    *,
    first_epoch: int,
    end_offset: int,
    end_epoch: int,
    has_every_offset: bool,
) -> None:
    """Check the part of a segment that holds `offset`, and the index entry that leads there.

    Raises:
        DamageTruncatesError: there is damage, and the log must be truncated there.
        OSError: the disk failed.
    """
    assert segment.unchecked is not None
    if segment.size == 0:
        _check_end(segment, policy, segment.base_offset, end_offset, has_every_offset)
        return
    _, start = segment.lookup(offset)
    if start < segment.unchecked.size:
        check_from(
            segment,
            start,
            policy,
            expected=segment.base_offset,
            first_epoch=first_epoch,
            end_offset=end_offset,
            end_epoch=end_epoch,
            has_every_offset=has_every_offset,
        )


def check_from(
    segment: Segment,
    position: int,
    policy: DamagePolicy,
    *,
    expected: int,
    first_epoch: int,
    end_offset: int,
    end_epoch: int,
    has_every_offset: bool,
) -> CheckedRange:
    """Check a segment from `position`, where a batch begins, unless that was done.

    Return the checked range that begins there: at least one batch, or the damage up to the next batch.

    Args:
        expected: the least offset that may be there.
        first_epoch: the leader epoch at the beginning of the segment, -1 if unknown.
        end_offset: the offset after the segment.
        end_epoch: the leader epoch there, -1 if unknown.
        has_every_offset: the log has every offset up to `end_offset`.

    Raises:
        DamageTruncatesError: it is damaged, and the log has to be truncated there.
        OSError: the disk failed.
    """
    unchecked = segment.unchecked
    assert unchecked is not None
    known = unchecked.range_at(position)
    if known is not None:
        return known
    before = unchecked.range_before(position)
    following = min(_AT_ONCE, segment.size - position)
    cached = following <= 0 or segment.files.begin_to_read(segment.file, position, following)
    found = survey(
        segment.files,
        segment.file,
        position,
        segment.size,
        base_offset=segment.base_offset,
        expected=expected if before is None else max(expected, before.end_offset),
        end_offset=end_offset,
        leader_epoch=first_epoch if before is None else before.leader_epoch,
        enough=_AT_ONCE if cached else _COLD_AT_ONCE,
        end_epoch=end_epoch,
    )
    damage = found.damage
    if before is None and damage and damage[0].position == position:
        damage[0] = damage[0]._replace(first_offset=_end_before(segment, damage[0]))
    if policy.found(segment, damage, found.reason):
        segment.renew_indexes()
    checked = CheckedRange(position, found.end, found.end_offset, found.leader_epoch)
    if found.end == segment.size:
        _check_end(segment, policy, found.end_offset, end_offset, has_every_offset)
    unchecked.add(checked)  # last, so that a check that failed is repeated
    return checked


def _end_before(segment: Segment, damaged: DamagedRange) -> int:
    """Return the first offset of damage, by the headers of the batches before it.

    These batches are not checked yet, and are assumed to be good.
    """
    end_offset = damaged.first_offset
    try:
        for place in segment.places():
            if place.position >= damaged.position:
                break
            end_offset = max(end_offset, place.last_offset + 1)
    except BadBatchError:
        pass  # Found when that part is read.
    return min(end_offset, damaged.end_offset)


def _check_end(
    segment: Segment, policy: DamagePolicy, found: int, end_offset: int, has_every_offset: bool
) -> None:
    """Note as damage the offsets that are missing at the end of a segment or after it.

    If the next segment begins later than this one ends, offsets are missing. The end of this segment is
    missing if its indexes reach further. Otherwise a segment after it is missing, unless the log was
    compacted: compaction leaves such gaps too, but then the indexes end where the segment does.
    """
    if found >= end_offset:
        return
    size = segment.size
    lost = DamagedRange(size, size, found, end_offset)
    if segment.indexes.ends_early or found < indexed_end(segment):
        if policy.found(segment, [lost], f"the file ends at byte {size}"):
            segment.renew_indexes()
    elif has_every_offset and not _was_compacted(segment):
        policy.found(segment, [lost], f"the next segment begins at offset {end_offset}: one is missing")


def _was_compacted(segment: Segment) -> bool:
    """Return whether a segment was compacted although no checkpoint says so.

    The checkpoint of the broker that compacted it may be lost.
    """
    expected = segment.base_offset
    try:
        for place in segment.places():
            if place.base_offset > expected and holding(segment.damage, expected) is None:
                return True
            expected = place.last_offset + 1
    except BadBatchError:
        pass  # Found when that part is read.
    return False


def indexed_end(segment: Segment) -> int:
    """Return the offset after the last one in the time index.

    The file once reached at least that far. If an index cannot be read, the result is the base offset, or the
    highest possible offset if the file ends before its offset index does.
    """
    indexes = segment.indexes
    try:
        segment.check_indexes()
    except (CorruptIndexError, FileNotFoundError):
        return segment.base_offset + MAX_RELATIVE_OFFSET if indexes.ends_early else segment.base_offset
    time_index = indexes.time_index
    return time_index.last_offset + 1 if time_index.entries else segment.base_offset
