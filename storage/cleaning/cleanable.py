"""Finds out which part of a log can be compacted, and whether that is due.

A log has been compacted below its cleaner offset. Above it is the dirty part. It has only entire segments,
and ends at the first of

- the active segment,
- the last stable offset, since a record that is not committed may not be the last of its key,
- the first segment with a record younger than min.compaction.lag.ms.

The log with the highest share of dirty bytes up to that end is compacted first, if the share is above
min.cleanable.dirty.ratio, or if a dirty record is older than max.compaction.lag.ms. The active segment is
never compacted. So it is closed when it is older than max.compaction.lag.ms or segment.ms, even if nobody
appends to it (Apache Kafka waits for the next append).

Everything here runs on the event loop.

Source: LogCleanerManager.grabFilthiestCompactedLog, cleanableOffsets; KIP-354.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import pairwise

from kafkapy.storage.cleaning.plan import CleaningPlan, SourceSegment
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.storage.log.segment import Segment

logger = logging.getLogger(__name__)


class DamagedSegmentError(Exception):
    """A segment is damaged, so it must not be compacted."""


@dataclass(frozen=True, slots=True)
class CleanableLog:
    """The part of a log that could be compacted."""

    log: PartitionLog
    first_dirty_offset: int
    end_offset: int
    """The end of the part that may be compacted. It is the base offset of a segment."""
    clean_bytes: int
    dirty_bytes: int
    overdue: bool
    """Whether a dirty record is older than max.compaction.lag.ms."""

    @property
    def dirty_ratio(self) -> float:
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes)

    @property
    def is_due(self) -> bool:
        """Whether the topic's settings ask for compaction now."""
        return self.overdue or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def look_at(log: PartitionLog, now_ms: int) -> CleanableLog | None:
    """The part of a log that could be compacted; None if there is none.

    Raises:
        KafkaError: the log is damaged.
        StorageError: the disk failed.
    """
    return log.guarded("looking for dirty segments of", lambda: _look_at(log, now_ms))


def roll_if_old(log: PartitionLog, now_ms: int) -> None:
    """Close the active segment if it is too old, so that it can be compacted.

    Raises:
        KafkaError: the log is damaged.
        StorageError: the disk is full, or failed.
    """
    active = log.segments.active
    limit = now_ms - log.config.max_segment_ms + active.roll_jitter_ms
    if active.size and log.guarded("looking at", lambda: _age_counts_from(active, limit)) < limit:
        log.roll()


def _age_counts_from(segment: Segment, limit: int) -> int:
    """The time when the segment began, from which its age counts.

    It is the later of the first record's timestamp and the time of creation, since a new record may have an
    old timestamp.
    """
    started = segment.rolling_timestamp
    if started >= limit or segment.created_ms < limit:
        return max(started, segment.created_ms)
    # `created_ms` is when this process opened the segment. If an earlier one wrote it, it is older.
    return max(started, min(segment.created_ms, segment.modified_ms))


def _look_at(log: PartitionLog, now_ms: int) -> CleanableLog | None:
    first_dirty = _first_dirty_offset(log)
    segments = list(log.segments)
    clean = [segment for segment in segments if segment.base_offset < first_dirty]
    dirty = [segment for segment, following in pairwise(segments) if following.base_offset > first_dirty]
    end_offset = _end_offset(log, dirty, now_ms)
    dirty = [segment for segment in dirty if segment.base_offset < end_offset]
    dirty_bytes = sum(segment.size for segment in dirty)
    if not dirty_bytes:
        return None
    return CleanableLog(
        log,
        first_dirty,
        end_offset,
        sum(segment.size for segment in clean),
        dirty_bytes,
        _is_overdue(log, dirty, now_ms),
    )


def _first_dirty_offset(log: PartitionLog) -> int:
    cleaned = log.cleaned_offset
    if cleaned is None or cleaned < log.log_start_offset:
        return log.log_start_offset
    if cleaned > log.log_end_offset:
        logger.warning(
            "%s ends at offset %d but was compacted up to %d: compacting all of it again.",
            log.topic_partition,
            log.log_end_offset,
            cleaned,
        )
        log.cleaned_offset = None
        return log.log_start_offset
    return cleaned


def _end_offset(log: PartitionLog, dirty: list[Segment], now_ms: int) -> int:
    """The end of the part that may be compacted, which is the base offset of a segment."""
    end_offset = min(log.last_stable_offset, log.segments.active.base_offset)
    lag = log.config.min_compaction_lag_ms
    if lag > 0:
        for segment in dirty:
            if segment.largest_timestamp > now_ms - lag:
                end_offset = min(end_offset, segment.base_offset)
                break
    return log.segments.floor(end_offset).base_offset


def _is_overdue(log: PartitionLog, dirty: list[Segment], now_ms: int) -> bool:
    lag = log.config.max_compaction_lag_ms
    if lag >= now_ms:
        return False
    timestamps = [segment.rolling_timestamp for segment in dirty if segment.size]
    return any(0 < timestamp < now_ms - lag for timestamp in timestamps)


def plan(cleanable: CleanableLog, now_ms: int) -> CleaningPlan:
    """Plan a pass over a log.

    Raises:
        DamagedSegmentError: a segment of the pass is damaged.
        KafkaError: the log is damaged.
        StorageError: the disk failed.
    """
    log = cleanable.log
    segments = list(log.segments)
    sources = []
    for segment, following in pairwise(segments):
        if segment.base_offset >= cleanable.end_offset:
            break
        if segment.damage:
            raise DamagedSegmentError(f"{segment.path} is damaged")
        sources.append(SourceSegment(segment.base_offset, following.base_offset, segment.size))
    return CleaningPlan(
        log.path,
        log.config,
        tuple(sources),
        cleanable.first_dirty_offset,
        tuple(log.aborted_transactions(sources[0].base_offset, cleanable.end_offset)),
        log.producers.copy_producers(),
        now_ms,
    )
