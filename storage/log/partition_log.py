"""The log of one partition: record batches in segments, appended only, with its offsets.

    log start offset   <=  last stable offset  <=  high watermark  <=  log end offset
    flushed offset                                                <=  log end offset

Readers see what lies between the log start offset and the high watermark (or the last stable offset).
Everything below the flushed offset is on disk, its file names included. It is the recovery point, as far as
the leader epochs are saved. The broker decides who moves the high watermark, and when a flush is due: this
class neither waits nor schedules.

One thread uses a log, the event loop's. Only `FlushTicket.run` goes elsewhere.

Crash story: batches above the recovery point may be missing or torn after a crash; recovery.py keeps the good
prefix. An append that fails leaves nothing: the file is truncated to its last batch. If space, descriptors or
memory are lacking, the append is refused, and the log goes on when there are some again. Any other error of
the disk takes the whole log directory offline (log_directory.py). A batch is never visible in part: the end
of the log moves after the write.

Source: UnifiedLog, LocalLog.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kafkapy.protocol.compression import MAX_DECOMPRESSED
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.records import HEADER_SIZE, NO_TIMESTAMP
from kafkapy.storage.disk.checkpoints import LEADER_EPOCHS
from kafkapy.storage.disk.files import StorageError, release_all
from kafkapy.storage.log.append import Appender, AppendInfo
from kafkapy.storage.log.flush import FlushTicket
from kafkapy.storage.log.invariants import check_log
from kafkapy.storage.log.log_reader import LogRead, TimestampOffset
from kafkapy.storage.log.log_state import DAMAGE, LogState
from kafkapy.storage.log.retention import ALL, delete_old_segments
from kafkapy.storage.log.timestamp_search import LogChangedError, TimestampSearch
from kafkapy.storage.log.truncation import Truncator
from kafkapy.storage.log.txn_index import AbortedTxn
from kafkapy.storage.log.validate import AppendOrigin, PreparedBatches, prepare_batches

__all__ = ["AppendInfo", "FlushTicket", "LogRead", "PartitionLog", "TimestampOffset"]

logger = logging.getLogger(__name__)

T = TypeVar("T")


class PartitionLog(LogState):
    """The log of a topic partition in a directory of its own."""

    __slots__ = ()

    def __repr__(self) -> str:
        return (
            f"PartitionLog({self.topic_partition}, {self.log_start_offset}..{self.high_watermark}"
            f"..{self.log_end_offset}, flushed {self.flushed_offset})"
        )

    @property
    def directory(self) -> Path:
        """The partition's directory; its parent is the log directory."""
        return Path(self.path)

    @property
    def recovery_point(self) -> int:
        """Where a restart has to begin to look.

        Below it all is on disk, the leader epochs in their checkpoint too.
        """
        return min(self.flushed_offset, self.leader_epochs.saved_below)

    # --- appending ------------------------------------------------------------------------------------------

    def append(
        self, records: memoryview, *, leader_epoch: int, origin: AppendOrigin, now_ms: int
    ) -> AppendInfo:
        """Validate batches, give them the next offsets and write them.

        The buffer is changed in place.

        Raises:
            KafkaError: the batches are refused.
            StorageError: the disk is full, or failed.
        """
        prepared = prepare_batches(records, config=self.config, origin=origin, now_ms=now_ms)
        return self.append_prepared(prepared, leader_epoch=leader_epoch, origin=origin, now_ms=now_ms)

    def append_prepared(
        self, prepared: PreparedBatches, *, leader_epoch: int, origin: AppendOrigin, now_ms: int
    ) -> AppendInfo:
        """Give validated batches the next offsets and write them.

        Raises:
            KafkaError: the batches do not fit the state of their producers.
            StorageError: the disk is full, or failed.
        """
        self.log_directory.require_online()
        log_append_time = now_ms if self.config.message_timestamp_type == "LogAppendTime" else NO_TIMESTAMP
        prepared.assign(self.log_end_offset, leader_epoch=leader_epoch, log_append_time=log_append_time)
        return Appender(self).append(prepared, origin, log_append_time, now_ms)

    def append_as_follower(self, records: memoryview, *, now_ms: int) -> AppendInfo:
        """Write batches as the leader has them, with its offsets and epochs.

        Raises:
            KafkaError: CORRUPT_MESSAGE or INVALID_RECORD, also where the offsets are not above
                those of the log.
            StorageError: the disk is full, or failed.
        """
        self.log_directory.require_online()
        origin = AppendOrigin.REPLICATION
        prepared = prepare_batches(records, config=self.config, origin=origin, now_ms=now_ms)
        expected = self.log_end_offset
        for batch in prepared.batches:
            if batch.header.base_offset < expected:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD,
                    f"Offset {batch.header.base_offset} where {expected} is next in {self.topic_partition}.",
                )
            expected = batch.header.next_offset
        return Appender(self).append(prepared, origin, NO_TIMESTAMP, now_ms)

    def roll(self, first_offset: int = 0) -> None:
        """Close the active segment and start a new one, unless it is empty.

        The new one begins at the log end offset, or at `first_offset` where that is above.

        Raises:
            StorageError: the disk is full, or failed; the active segment stays.
        """
        self.guarded("creating", self.make_files)
        self.guarded("rolling", lambda: Appender(self).roll(first_offset))

    # --- flushing -------------------------------------------------------------------------------------------

    def prepare_flush(self) -> FlushTicket | None:
        """What to sync so that everything below the log end offset is on disk.

        None if all of it is, or the partition was deleted. Sync it with `ticket.run()` in a worker thread,
        then call `complete_flush`, or `abort_flush` if that raised anything.

        Raises:
            StorageError: a file cannot be opened; nothing has changed.
        """
        return self.guarded("preparing a flush of", self._prepare_flush)

    def _prepare_flush(self) -> FlushTicket | None:
        unsynced, active, end_offset = self.unsynced, self.segments.active, self.log_end_offset
        if self.abandoned or (end_offset <= self.flushed_offset and not unsynced):
            return None
        self.make_files()
        files = unsynced.open_segments()
        try:
            files += active.flush_handles(with_indexes=False)
        except BaseException:
            release_all(files)
            raise
        ticket = FlushTicket(self.log_directory, end_offset, self.generation, files)
        if unsynced:
            ticket.cover(unsynced.take())
        self.reader.remember(end_offset, active, active.size)
        self.ticket = ticket
        return ticket

    def complete_flush(self, ticket: FlushTicket) -> None:
        """Count what `ticket` synced as flushed."""
        ticket.release()
        self.unsynced.give_up(ticket.taken)
        if ticket.generation == self.generation and ticket.end_offset > self.flushed_offset:
            self.flushed_offset = ticket.end_offset
        self.last_flush_ms = self.log_directory.clock.now_ms()
        self.ticket = None

    def abort_flush(self, ticket: FlushTicket, error: BaseException) -> None:
        """Count nothing that `ticket` was to sync as flushed, because of what `ticket.run` raised.

        A failed sync takes the log directory offline. After anything else the next flush has it all to do.
        """
        ticket.release()
        self.unsynced.put_back(ticket.taken)
        self.ticket = None
        if isinstance(error, StorageError):
            self.log_directory.failed(f"flushing {self.path}", error)

    @property
    def has_unflushed_segments(self) -> bool:
        """Whether a closed segment is not synced yet: time for a flush in the background."""
        return bool(self.unsynced.segments)

    def flush(self) -> None:
        """Sync everything, here and now.

        Raises:
            StorageError: the disk failed, and the log directory is offline; or no file can be opened.
        """
        ticket = self.prepare_flush()
        if ticket is not None:
            try:
                ticket.run()
            except BaseException as error:
                self.abort_flush(ticket, error)
                if isinstance(error, OSError):
                    raise self.translated("flushing", error) from error
                raise
            self.complete_flush(ticket)

    # --- reading --------------------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        upper_bound: int,
        min_one_batch: bool = True,
        pass_empty: bool = False,
    ) -> LogRead | None:
        """Complete batches from the one that holds `offset`, none passing `upper_bound`.

        None if there are none. They are at most `max_bytes`, unless `min_one_batch` and the first batch is
        larger. With `pass_empty`, batches without records are passed by if the read would hold nothing else.
        The caller releases the slice.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, or CORRUPT_MESSAGE where the file is damaged.
            StorageError: the disk failed.
        """
        end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Offset {offset} is not within {self.log_start_offset} and {end_offset}.",
            )
        if offset >= upper_bound:
            return None
        self.log_directory.require_online()
        try:
            whole = self.cleaned_offset is None and not self.config.is_compacted
            found = self.reader.read(offset, max_bytes, upper_bound, end_offset, min_one_batch, whole)
            if pass_empty and found is not None and found.slice.nbytes % HEADER_SIZE == 0:
                rest = (max_bytes, upper_bound, end_offset, min_one_batch, whole)
                found = self.reader.past_empty(found, *rest)
            return found
        except (OSError, MemoryError, *DAMAGE) as error:
            raise self.translated("reading", error) from error

    def search(self, timestamp: int | None, max_decompressed: int = MAX_DECOMPRESSED) -> TimestampSearch:
        """A search for the first record that is at least as new as `timestamp`.

        If that is None, it is for the first record with the highest timestamp. `TimestampSearch.run`
        searches, in any thread.

        Args:
            max_decompressed: the most bytes to which the records of a batch may decompress.

        Raises:
            StorageError: the log directory is offline.
        """
        self.log_directory.require_online()
        return TimestampSearch(self, timestamp, max_decompressed)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record that is at least as new as `timestamp`; None if there is none.

        It blocks, and may be called in any thread.

        Raises:
            KafkaError: CORRUPT_MESSAGE where the file is damaged.
            StorageError: the disk failed.
        """
        return self._searched(timestamp)

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The first record with the highest timestamp of the log; None without timestamps.

        Raises as `offset_for_timestamp`.
        """
        return self._searched(None)

    def _searched(self, timestamp: int | None) -> TimestampOffset | None:
        while True:
            search = self.search(timestamp)
            search.run()
            with contextlib.suppress(LogChangedError):
                return search.result()

    def aborted_transactions(self, first: int, end: int) -> list[AbortedTxn]:
        """The aborted transactions that have records in offsets `first` to `end`, exclusive.

        Raises as `offset_for_timestamp`.
        """
        return self.guarded("reading", lambda: self.segments.aborted_transactions(first, end))

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest leader epoch not above `epoch`, and where it ended; (-1, -1) if unknown."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    # --- truncating -----------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Remove every batch that holds `offset` or anything above; return whether there were any.

        The log then ends after its last batch, which may be below `offset`.

        Raises:
            StorageError: the disk failed.
        """
        self.stop_cleaning()
        cut = self._all_or_offline("truncating", lambda: Truncator(self).truncate_to(offset))
        if self.cleaned_offset is not None:
            self.cleaned_offset = min(self.cleaned_offset, self.log_end_offset)
        return cut

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove every batch and begin at `offset`.

        Raises:
            StorageError: the disk failed.
        """
        self.stop_cleaning()
        self._all_or_offline("truncating", lambda: Truncator(self).truncate_fully_and_start_at(offset))

    def delete_old_segments(self, now_ms: int, most: int = ALL) -> int:
        """Delete at most `most` segments that retention does not keep; return how many.

        Raises:
            StorageError: the disk failed.
        """
        return self.guarded(
            "deleting segments of", lambda: delete_old_segments(self, Truncator(self), now_ms, most)
        )

    # --- compaction -----------------------------------------------------------------------------------------

    def replace_segments(self, swap: Callable[[LogState], None]) -> None:
        """Let a compaction put a segment in the place of those it was made from (cleaning/swap.py).

        Raises:
            CleaningAbortedError: the log changed meanwhile.
            StorageError: the disk failed.
        """
        self._all_or_offline("compacting", lambda: swap(self))

    def stop_cleaning(self) -> None:
        """Have a compaction under way end without effect, from now on: the log is about to change.

        Raises:
            StorageError: the disk failed just now.
        """
        task, log_directory = self.cleaning, self.log_directory
        if task is not None:
            self.cleaning = None
            was_online = log_directory.error is None
            try:
                task.abort()
            except OSError as error:
                failed = log_directory.failed(f"compacting {self.path}", error)
                if was_online:
                    raise failed from error

    # --- closing --------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Leave the files as a clean stop does: synced, trimmed, with a producer snapshot.

        The snapshot is at the end of the log.

        Raises:
            StorageError: the disk is full, or failed; the log counts as not closed.
        """
        self.guarded("closing", lambda: self.log_directory.space.with_reserve(self._close))

    def _close(self) -> None:
        log_directory, active = self.log_directory, self.segments.active
        self.make_files()
        active.finish()
        if active.dirty:
            active.trim()
            self.unsynced.segments += (active,)
        self.producers.end_offset = self.log_end_offset
        self.snapshots.take(self.producers, durable=log_directory.syncs_each)
        if self.unsynced.segments or self.flushed_offset < self.log_end_offset:
            self.flush()
        if self.leader_epochs.unsaved:
            path = f"{self.path}/{LEADER_EPOCHS}"
            self.leader_epochs.save(log_directory.files, path, durable=log_directory.syncs_each)
        self.close_files()

    def close_files(self) -> None:
        """Close every file; they open again on use."""
        for segment in self.segments:
            segment.close_files()

    def moved_to(self, path: str) -> None:
        """Note that the directory was renamed."""
        self.unsynced.moved(self.path, path)
        self.path = path
        self.snapshots.directory = path
        for segment in self.segments:
            segment.moved_to(path)
        self.reader.forget()

    def abandon(self) -> None:
        """Note that the partition is being deleted.

        Nothing more is flushed, and a flush that runs may find its files missing.

        Raises:
            StorageError: the disk failed.
        """
        self.abandoned = True
        if self.ticket is not None:
            self.ticket.abandoned = True
        self.stop_cleaning()

    def check(self) -> None:
        """Assert what must always hold, reading the entire log. For tests."""
        self.make_files()
        check_log(self)

    # --- errors ---------------------------------------------------------------------------------------------

    def _all_or_offline(self, what: str, call: Callable[[], T]) -> T:
        """Run `call`, which must not stop half-way: even a full disk takes the directory offline."""

        def whole() -> T:
            try:
                return call()
            except (OSError, MemoryError) as error:
                raise self.log_directory.failed(f"{what} {self.path}", error) from error

        self.guarded("creating", self.make_files)
        return self.guarded(what, whole)
