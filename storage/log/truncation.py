"""Truncating a log at its end, and removing segments from its start.

A log is truncated at its end if it is damaged, or has records that its new leader has not. Segments are
removed from its start when their records have expired.

Crash story: before the log end offset falls below the recovery point, the recovery point is lowered in its
checkpoint. Otherwise records would seem to be lost after a crash. Next, the noted damage of the truncated
part is forgotten, since good batches will replace it. (After a crash in between, recovery finds the damage
again, above the recovery point, and truncates the log there.) With durability=fsync the truncation is synced:
after a crash, truncated batches must not follow batches that were written later. Removed segments are renamed
to `.deleted` and deleted later, so that readers that have them open can read on.

A truncation that lacks descriptors or memory stops half-way, and the log directory stays online. It is
completed before anything is appended, flushed or truncated. Otherwise the producers' states would count
batches that are gone.

Source: UnifiedLog.truncateTo, truncateFullyAndStartAt, deleteSegments.
"""

from __future__ import annotations

import logging
from functools import partial

from kafkapy.protocol.errors import DecodeError
from kafkapy.storage.damage.damage import joined, save_damage
from kafkapy.storage.damage.survey import survey
from kafkapy.storage.log.append import roll
from kafkapy.storage.log.batches import BadBatchError
from kafkapy.storage.log.log_state import LogState
from kafkapy.storage.log.producer_replay import load_producers
from kafkapy.storage.log.segment import Segment

logger = logging.getLogger(__name__)


class Truncator:
    """Removes batches from both ends of a log."""

    __slots__ = ("_log",)

    def __init__(self, log: LogState) -> None:
        self._log = log

    def truncate_to(self, offset: int) -> bool:
        """Remove every batch that holds `offset` or anything above; return whether there were any.

        The log then ends after its last batch, as after a restart. That is below `offset` if `offset` was
        inside a batch, or in a gap that compaction left. (Apache Kafka's log ends at `offset` until it
        restarts.)

        Raises:
            OSError: the disk failed.
        """
        if offset >= self._log.log_end_offset:
            # The epoch of a leader that appended nothing may be noted at the end of the log.
            self._log.leader_epochs.truncate_from_end(self._log.log_end_offset)
            return False
        if offset < self._log.segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
        else:
            self._truncate(self._log.segments.floor(offset), offset)
        return True

    def truncate_at_damage(self) -> None:
        """Truncate the log where its first known damage begins.

        The part of that segment before the damage is checked first, so that the log ends with good batches.
        That takes as long as reading it does.

        Raises:
            BadBatchError, DecodeError: the producers' states cannot be read, though no batch is damaged.
            OSError: the disk failed.
        """
        while (segment := next((each for each in self._log.segments if each.damage), None)) is not None:
            self._survey(segment, segment.damage[0].position, segment.damage[0].first_offset)
            segment.rebuild_indexes()
            first = segment.damage[0]
            logger.warning(
                "Truncating %s at offset %d, the first damaged one. Later records have to be fetched again.",
                self._log.topic_partition,
                first.first_offset,
            )
            try:
                self._truncate(segment, first.first_offset)
            except (BadBatchError, DecodeError):
                # The producers' states come from earlier batches, which are damaged too.
                for each in self._log.segments:
                    self._survey(each, each.size, self._end_of(each))
                if not any(each.damage for each in self._log.segments):
                    raise

    def _survey(self, segment: Segment, size: int, end_offset: int) -> None:
        """Find the damage in the first `size` bytes, which hold the offsets below `end_offset`."""
        epochs = self._log.leader_epochs
        found = survey(
            segment.files,
            segment.file,
            0,
            size,
            base_offset=segment.base_offset,
            expected=segment.base_offset,
            end_offset=end_offset,
            leader_epoch=epochs.epoch_for_offset(segment.base_offset),
            end_epoch=epochs.epoch_for_offset(end_offset),
        )
        segment.damage = joined((*segment.damage, *found.damage))

    def _end_of(self, segment: Segment) -> int:
        following = self._log.segments.after(segment)
        return self._log.log_end_offset if following is None else following.base_offset

    def _truncate(self, active: Segment, offset: int) -> None:
        """Remove the batches that hold `offset` or more from a segment, and all segments after it."""
        flushed_offset = self._log.flushed_offset
        # The log end offset is only known after the truncation. It is not below the segment's base offset.
        self._forget_flushed_from(min(offset, active.base_offset))
        self._log.unfinished_truncation = partial(self._truncate, active, offset)
        self._forget_damage_from(active.base_offset, offset)
        for segment in reversed(self._log.segments.above(active.base_offset)):
            self._remove_segment(segment)
        active.truncate_to(offset)
        if self._log.log_directory.durable:
            self._log.log_directory.files.sync_data(active.file)
        end_offset = active.read_next_offset()
        self._log.log_end_offset = end_offset
        self._log.log_start_offset = min(self._log.log_start_offset, end_offset)
        self._log.high_watermark = min(self._log.high_watermark, end_offset)
        self._log.flushed_offset = min(flushed_offset, end_offset)
        self._log.leader_epochs.truncate_from_end(end_offset)
        self._reload_producers()
        self._sync_names()
        self._log.unfinished_truncation = None

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove every batch and begin at `offset`.

        Raises:
            OSError: the disk failed.
        """
        # Even if `offset` is higher: a crash half-way may leave no segment, so nothing counts as flushed.
        self._forget_flushed_from(0)
        self._log.unfinished_truncation = partial(self.truncate_fully_and_start_at, offset)
        self._forget_damage_from(0, 0)
        log_directory, config = self._log.log_directory, self._log.config
        for segment in self._log.segments:
            self._log.unsynced.forget(segment)
            log_directory.delete_later(segment.mark_deleted(), config.file_delete_delay_ms)
        now_ms = log_directory.clock.now_ms()
        self._log.segments.replace_all(
            Segment.create(log_directory.files, self._log.path, offset, config, now_ms)
        )
        self._log.log_start_offset = self._log.log_end_offset = self._log.high_watermark = (
            self._log.flushed_offset
        ) = offset
        self._log.leader_epochs.clear()
        self._log.snapshots.delete_all()
        self._reload_producers()
        self._sync_names()
        self._log.unfinished_truncation = None

    def remove_oldest(self, count: int) -> None:
        """Remove the first `count` segments, and raise the log start offset.

        All of them must be below the high watermark.

        Raises:
            OSError: the disk failed.
        """
        if count == len(self._log.segments):
            roll(self._log, self._log.log_end_offset)
        segments = list(self._log.segments)
        self._log.advance_log_start_offset(segments[count].base_offset)
        self._log.reader.forget()
        for segment in segments[:count]:
            self._remove_segment(segment)

    def _forget_flushed_from(self, offset: int) -> None:
        """Lower the flushed offset to `offset`, in the checkpoint too; forget remembered positions."""
        flushed_offset = self._log.flushed_offset
        if offset < flushed_offset:
            self._log.flushed_offset = offset
            try:
                self._log.log_directory.before_truncation(self._log.log_directory)
            except BaseException:
                # Nothing was truncated. The next truncation has to write the checkpoint.
                self._log.flushed_offset = flushed_offset
                raise
        self._log.generation += 1
        self._log.reader.forget()

    def _forget_damage_from(self, base_offset: int, offset: int) -> None:
        """Save the noted damage that remains.

        All damage in segments below `base_offset` remains. In the other segments, damage that ends below
        `offset` does.
        """
        segments = self._log.segments
        if any(segment.damage for segment in segments):
            stays = {
                segment.base_offset: tuple(
                    each
                    for each in segment.damage
                    if segment.base_offset < base_offset or each.ends_below(offset)
                )
                for segment in segments
            }
            log_directory = self._log.log_directory
            save_damage(log_directory.files, self._log.path, stays, durable=log_directory.durable)

    def _remove_segment(self, segment: Segment) -> None:
        """Remove a segment from the log; its files are deleted later."""
        self._log.segments.remove(segment)
        self._log.snapshots.delete(segment.base_offset)
        self._log.unsynced.forget(segment)
        self._log.log_directory.delete_later(segment.mark_deleted(), self._log.config.file_delete_delay_ms)

    def _reload_producers(self) -> None:
        load_producers(
            self._log.producers,
            self._log.snapshots,
            self._log.segments,
            log_start_offset=self._log.log_start_offset,
            end_offset=self._log.log_end_offset,
            now_ms=self._log.log_directory.clock.now_ms(),
        )
        self._log.producers.high_watermark_moved(self._log.high_watermark)

    def _sync_names(self) -> None:
        """Sync the removal of files.

        A producer snapshot that came back after a crash would include batches that were truncated.
        """
        if self._log.log_directory.durable:
            self._log.log_directory.files.sync_directory(self._log.path)
