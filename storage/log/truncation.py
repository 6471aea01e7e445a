"""Cutting a log: at its end, because another replica leads, or at its start, because records expired.

Crash story: before the end of the log moves below the recovery point, the recovery point moves in its
checkpoint. A checkpoint that says more than the log holds would look like a loss after a crash. With
durability=fsync the cut is synced: what was cut must not come back behind what is written there next. Removed
segments are renamed to `.deleted` and go later, so that a reader that holds one goes on.

Source: UnifiedLog.truncateTo, truncateFullyAndStartAt, deleteSegments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkapy.storage.log.append import roll
from kafkapy.storage.log.producer_replay import load_producers
from kafkapy.storage.log.segment import Segment

if TYPE_CHECKING:
    from kafkapy.storage.log.partition_log import PartitionLog


def truncate_to(log: PartitionLog, offset: int) -> bool:
    """Remove every batch that holds `offset` or anything above; whether there were any.

    The log then ends behind its last batch, as it would after a restart: below `offset` where that lay inside
    a batch, or in a gap that compaction left. (Apache Kafka's log ends at `offset` until it restarts.)

    Raises:
        OSError: the disk failed.
    """
    if offset >= log.log_end_offset:
        # The epoch of a leader that appended nothing may be noted at the end of the log.
        log.leader_epochs.truncate_from_end(log.log_end_offset)
        return False
    if offset < log.segments.first.base_offset:
        truncate_fully_and_start_at(log, offset)
        return True
    flushed_offset = log.flushed_offset
    # Where the log will end is known when it is cut; it is not below the start of the segment.
    _forget_flushed_from(log, min(offset, log.segments.floor(offset).base_offset))
    for segment in reversed(log.segments.above(offset)):
        _remove_segment(log, segment)
    active = log.segments.active
    active.truncate_to(offset)
    if log.log_directory.durable:
        log.log_directory.files.sync_data(active.file)
    end_offset = active.read_next_offset()
    log.log_end_offset = end_offset
    log.log_start_offset = min(log.log_start_offset, end_offset)
    log.high_watermark = min(log.high_watermark, end_offset)
    log.flushed_offset = min(flushed_offset, end_offset)
    log.leader_epochs.truncate_from_end(end_offset)
    _reload_producers(log)
    _sync_names(log)
    return True


def truncate_fully_and_start_at(log: PartitionLog, offset: int) -> None:
    """Remove every batch and begin at `offset`.

    Raises:
        OSError: the disk failed.
    """
    # Even where it begins above: a crash half-way leaves nothing of what was flushed, and no segment.
    _forget_flushed_from(log, 0)
    log_directory, config = log.log_directory, log.config
    for segment in log.segments:
        log.unsynced.forget(segment)
        log_directory.delete_later(segment.mark_deleted(), config.file_delete_delay_ms)
    now_ms = log_directory.clock.now_ms()
    log.segments.replace_all(Segment.create(log_directory.files, log.path, offset, config, now_ms))
    log.log_start_offset = log.log_end_offset = log.high_watermark = log.flushed_offset = offset
    log.leader_epochs.clear()
    log.snapshots.delete_all()
    _reload_producers(log)
    _sync_names(log)


def remove_oldest(log: PartitionLog, count: int) -> None:
    """Remove the first `count` segments, all of them below the high watermark, and begin behind them.

    Raises:
        OSError: the disk failed.
    """
    if count == len(log.segments):
        roll(log, log.log_end_offset)
    segments = list(log.segments)
    log.advance_log_start_offset(segments[count].base_offset)
    log.reader.forget()
    for segment in segments[:count]:
        _remove_segment(log, segment)


def _forget_flushed_from(log: PartitionLog, offset: int) -> None:
    """Nothing at or above `offset` counts as flushed from now on, in the checkpoint neither."""
    flushed_offset = log.flushed_offset
    if offset < flushed_offset:
        log.flushed_offset = offset
        try:
            log.log_directory.before_truncation(log)
        except BaseException:
            log.flushed_offset = flushed_offset  # nothing was cut, and whoever tries again has to write it
            raise
    log.generation += 1
    log.reader.forget()


def _remove_segment(log: PartitionLog, segment: Segment) -> None:
    """Take a segment out of the log; its files go later."""
    log.segments.remove(segment)
    log.snapshots.delete(segment.base_offset)
    log.unsynced.forget(segment)
    log.log_directory.delete_later(segment.mark_deleted(), log.config.file_delete_delay_ms)


def _reload_producers(log: PartitionLog) -> None:
    load_producers(
        log.producers,
        log.snapshots,
        log.segments,
        log_start_offset=log.log_start_offset,
        end_offset=log.log_end_offset,
        now_ms=log.log_directory.clock.now_ms(),
    )


def _sync_names(log: PartitionLog) -> None:
    """Have it on disk which files are gone: a snapshot of producers that came back would say that they wrote
    what was cut."""
    if log.log_directory.durable:
        log.log_directory.files.sync_directory(log.path)
