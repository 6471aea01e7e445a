"""Retention: which of a log's oldest segments are deleted, by start offset, size and time.

Entire segments are deleted, oldest first, and only below the high watermark. The active segment is deleted
too if it has expired: a new one is rolled first, since a log always has one. With cleanup.policy=compact
alone, only segments below the log start offset are deleted. The files are renamed to `.deleted` and removed
after file.delete.delay.ms; until then readers that have them open can read on.

Crash story: a restart removes `.deleted` files. If a crash undid the rename, the segment is deleted again.

Source: UnifiedLog.deleteOldSegments.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Final

from kafkapy.storage.log.log_state import LogState
from kafkapy.storage.log.segment import Segment
from kafkapy.storage.log.truncation import Truncator

logger = logging.getLogger(__name__)

ALL: Final = sys.maxsize
"""No limit on the number of segments to delete."""

Predicate = Callable[[Segment, Segment | None], bool]
"""Whether a segment may be deleted. The second argument is the segment after it."""


def delete_old_segments(log: LogState, truncator: Truncator, now_ms: int, most: int) -> int:
    """Delete at most `most` segments that retention does not keep; return their number.

    Raises:
        OSError: the disk failed.
        NotReadyError: inside of `cached_only`, something has to be provided first.
    """
    if len(log.segments) == 1 and log.segments.active.size == 0:
        return 0
    count = _delete(
        log,
        truncator,
        lambda _, following: _starts_below(following, log.log_start_offset),
        "log start offset",
        most,
    )
    config = log.config
    if config.deletes:
        excess = log.size - config.retention_bytes
        if config.retention_bytes >= 0 and excess >= 0:
            count += _delete(log, truncator, _Excess(excess).covers, "retention.bytes", most - count)
        retention_ms = config.retention_ms
        if retention_ms >= 0:
            count += _delete(
                log,
                truncator,
                lambda segment, _: now_ms - segment.largest_timestamp > retention_ms,
                "retention.ms",
                most - count,
            )
    return count


def _starts_below(following: Segment | None, log_start_offset: int) -> bool:
    return following is not None and following.base_offset <= log_start_offset


class _Excess:
    """The number of bytes by which a log is larger than it may be."""

    def __init__(self, nbytes: int) -> None:
        self._left = nbytes

    def covers(self, segment: Segment, _: Segment | None) -> bool:
        """Whether the log is still large enough without this segment."""
        if self._left < segment.size:
            return False
        self._left -= segment.size
        return True


def _delete(log: LogState, truncator: Truncator, may_go: Predicate, reason: str, most: int) -> int:
    """Delete the oldest segments as long as they `may_go`, at most `most`; return their number."""
    segments = list(log.segments)
    count = 0
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        if count == most:
            break
        end_offset = log.log_end_offset if following is None else following.base_offset
        if following is None and segment.size == 0:
            break
        if log.high_watermark < end_offset or not may_go(segment, following):
            break
        count += 1
    if count:
        logger.info(
            "%s: deleting %d segments, offsets %d and up: %s",
            log.topic_partition,
            count,
            segments[0].base_offset,
            reason,
        )
        with log.log_directory.files.waiting_for_disk():  # nothing may cut this off
            truncator.remove_oldest(count)
    return count
