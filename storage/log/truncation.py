"""Truncating a log at its end, and removing segments from its start.

Its end is truncated because another replica leads; records at its start have expired.

Crash story: before the end of the log moves below the recovery point, the recovery point moves in its
checkpoint. A checkpoint that says more than the log holds would look like a loss after a crash. With
durability=fsync the truncation is synced: what was truncated must not come back after what is written there
next. Removed segments are renamed to `.deleted` and deleted later, so that a reader that holds one goes on.

Source: UnifiedLog.truncateTo, truncateFullyAndStartAt, deleteSegments.
"""

from __future__ import annotations

from kafkapy.storage.log.append import Appender
from kafkapy.storage.log.log_state import LogState
from kafkapy.storage.log.producer_replay import load_producers
from kafkapy.storage.log.segment import Segment


class Truncator:
    """Removes batches from both ends of a log."""

    __slots__ = ("_log",)

    def __init__(self, log: LogState) -> None:
        self._log = log

    def truncate_to(self, offset: int) -> bool:
        """Remove every batch that holds `offset` or anything above; return whether there were any.

        The log then ends after its last batch, as it would after a restart: below `offset` where that lay
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
            return True
        flushed_offset = self._log.flushed_offset
        # Where the log will end is known after the truncation. It is not below the segment's start.
        self._forget_flushed_from(min(offset, self._log.segments.floor(offset).base_offset))
        for segment in reversed(self._log.segments.above(offset)):
            self._remove_segment(segment)
        active = self._log.segments.active
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
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove every batch and begin at `offset`.

        Raises:
            OSError: the disk failed.
        """
        # This holds even if it begins above: a crash half-way leaves nothing of what was flushed, and no
        # segment.
        self._forget_flushed_from(0)
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

    def remove_oldest(self, count: int) -> None:
        """Remove the first `count` segments, and begin after them.

        All of them are below the high watermark.

        Raises:
            OSError: the disk failed.
        """
        if count == len(self._log.segments):
            Appender(self._log).roll(self._log.log_end_offset)
        segments = list(self._log.segments)
        self._log.advance_log_start_offset(segments[count].base_offset)
        self._log.reader.forget()
        for segment in segments[:count]:
            self._remove_segment(segment)

    def _forget_flushed_from(self, offset: int) -> None:
        """Let nothing at or above `offset` count as flushed from now on, nor in the checkpoint."""
        flushed_offset = self._log.flushed_offset
        if offset < flushed_offset:
            self._log.flushed_offset = offset
            try:
                self._log.log_directory.before_truncation(self._log.log_directory)
            except BaseException:
                self._log.flushed_offset = (
                    flushed_offset  # nothing was truncated, and whoever tries again has to write it
                )
                raise
        self._log.generation += 1
        self._log.reader.forget()

    def _remove_segment(self, segment: Segment) -> None:
        """Take a segment out of the log; its files are deleted later."""
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

    def _sync_names(self) -> None:
        """Sync which files are gone.

        A producer snapshot that came back would say that its producers wrote what was truncated.
        """
        if self._log.log_directory.durable:
            self._log.log_directory.files.sync_directory(self._log.path)
