"""Checking what is read for the first time since the broker started.

Kafka sends batches without looking at them, so damage in a closed segment reaches consumers, until one of
them checks the CRC. Here bytes that were on disk when the log was loaded, and that recovery had no reason to
read, are checked (survey.py) when they are first read. What this process appended itself was checked on its
way in. So consumers at the end of a log pay nothing. One that reads old records pays once per byte, for all
consumers: see docs/storage.md for the measured cost. `log.check.on.first.read=false` turns it off.

A segment that is missing in the middle of a log is noticed at the end of the one before it, in logs that have
every offset: those that are not compacted and never were. Compaction leaves gaps between segments; Apache
Kafka's does, at least.

A read that meets unchecked bytes checks at most a megabyte, and ends there, so that it does not hold the
event loop longer. If the disk has yet to read the bytes, it checks fewer; the next read finds more of them in
the page cache. Damage that is found is noted (damage.py) and reported once.
"""

from __future__ import annotations

import logging
import os
from typing import Final, TypedDict

from kafkapy.storage.damage.damage import DamagedRange, holding, joined, load_damage, report, save_damage
from kafkapy.storage.damage.survey import survey
from kafkapy.storage.log.batches import BadBatchError
from kafkapy.storage.log.index_file import CorruptIndexError
from kafkapy.storage.log.offset_index import MAX_RELATIVE_OFFSET
from kafkapy.storage.log.segment import Segment
from kafkapy.storage.log.unchecked import CheckedPiece

_AT_ONCE: Final = 1 << 20
_COLD_AT_ONCE: Final = 128 << 10
"""The limit for bytes that are not in the page cache."""

logger = logging.getLogger(__name__)


class SegmentBounds(TypedDict):
    """What is known of a segment without reading it; -1 for an unknown leader epoch."""

    first_epoch: int
    end_offset: int
    end_epoch: int
    whole: bool
    """The log has every offset up to `end_offset`: it was never compacted."""


def check_around(
    segment: Segment, offset: int, *, first_epoch: int, end_offset: int, end_epoch: int, whole: bool
) -> None:
    """Check the part of a segment that holds `offset`, and the index entry that leads there.

    Raises:
        OSError: the disk failed.
    """
    assert segment.unchecked is not None
    if segment.size == 0:
        _check_end(segment, segment.base_offset, end_offset, whole)
        return
    _, start = segment.lookup(offset)
    if start < segment.unchecked.size:
        check_from(
            segment,
            start,
            expected=segment.base_offset,
            first_epoch=first_epoch,
            end_offset=end_offset,
            end_epoch=end_epoch,
            whole=whole,
        )


def check_from(
    segment: Segment,
    position: int,
    *,
    expected: int,
    first_epoch: int,
    end_offset: int,
    end_epoch: int,
    whole: bool,
) -> CheckedPiece:
    """Check a segment from `position`, where a batch begins, unless that was done.

    Returns the checked piece from there on: at least one batch, or the damage up to the next.

    Args:
        expected: the least offset that may lie there.
        first_epoch: the leader epoch at the beginning of the segment, -1 if unknown.
        end_offset: the offset after the segment.
        end_epoch: the leader epoch there, -1 if unknown.
        whole: the log has every offset up to `end_offset`.

    Raises:
        OSError: the disk failed.
    """
    unchecked = segment.unchecked
    assert unchecked is not None
    known = unchecked.piece_at(position)
    if known is not None:
        return known
    before = unchecked.piece_before(position)
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
    if quarantine(segment, damage, found.reason):
        segment.rebuild_indexes()
    piece = CheckedPiece(position, found.end, found.end_offset, found.leader_epoch)
    unchecked.add(piece)
    if found.end == segment.size:
        _check_end(segment, found.end_offset, end_offset, whole)
    return piece


def _end_before(segment: Segment, damaged: DamagedRange) -> int:
    """Where the offsets begin that damage has hit, by the headers before it.

    What lies before it is good as far as is known, although it is not checked yet.
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


def _check_end(segment: Segment, found: int, end_offset: int, whole: bool) -> None:
    """Note as damage what is missing at the end of a segment, or after it.

    The end of the segment is missing if its indexes know of more, and the next one begins later. A segment
    after it is missing if the next one begins later, and nothing else explains that.

    (Compaction leaves such gaps too, but then the indexes end where the segment does.)
    """
    if found >= end_offset:
        return
    size = segment.size
    lost = DamagedRange(size, size, found, end_offset)
    if segment.cut_short or found < indexed_end(segment):
        segment.rebuild_indexes()
        quarantine(segment, [lost], f"the file ends at byte {size}")
    elif whole and not _is_thinned(segment):
        quarantine(segment, [lost], f"the next segment begins at offset {end_offset}: one is missing")


def _is_thinned(segment: Segment) -> bool:
    """Whether a segment was compacted after all.

    It may have been, by a broker whose cleaner's checkpoint is gone.
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
    """The offset after the last one that the indexes know of, where they can be read.

    The file once reached that far, at least.
    """
    try:
        segment.check_indexes()
    except (CorruptIndexError, FileNotFoundError):
        return segment.base_offset + MAX_RELATIVE_OFFSET if segment.cut_short else segment.base_offset
    time_index = segment.time_index
    return time_index.last_offset + 1 if time_index.entries else segment.base_offset


def quarantine(segment: Segment, damage: list[DamagedRange], reason: str) -> bool:
    """Note the `damage` of a segment, also for after a restart; return whether that is news."""
    new = [damaged for damaged in damage if damaged not in segment.damage]
    if not new:
        return False
    files, directory = segment.files, os.path.dirname(segment.path)
    segment.damage = joined((*segment.damage, *new))
    for damaged in new:
        report(directory, segment.path, damaged, reason)
    try:
        known = load_damage(files, directory)
        # It is not synced: whatever is read again is found again.
        save_damage(files, directory, {**known, segment.base_offset: segment.damage}, durable=False)
    except OSError as error:
        logger.error("The damage of %s is not written down: %s", directory, error)
    return True
