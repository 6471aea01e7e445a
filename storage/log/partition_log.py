"""The log of one partition: its record batches in segments, and its offsets.

    log start offset   <=  last stable offset  <=  high watermark  <=  log end offset
    flushed offset                                                <=  log end offset

Readers see the records from the log start offset to the high watermark (or the last stable offset).
Everything below the flushed offset is on disk, with the names of its files. The recovery point is the flushed
offset, or the offset up to which the leader epochs are saved, if that is lower. This class neither waits nor
schedules: the broker decides when the high watermark moves and when a flush is due.

Only the event loop uses a log. Worker threads run `FlushTicket.run`, `TimestampSearch.run`, `IndexRepair.run`
and the creation of new files (new_log.py).

Crash story: batches above the recovery point may be missing or torn after a crash; recovery.py keeps the good
batches before them. After a failed append the file is truncated to its last batch. If space, descriptors or
memory are lacking, the append is refused, and later appends may succeed. Any other error of the disk takes
the log directory offline (log_directory.py). A batch is never visible in part: the log end offset moves after
the write.

Source: UnifiedLog, LocalLog.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kafkapy.protocol.compression import MAX_DECOMPRESSED
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.records import HEADER_SIZE, NO_TIMESTAMP
from kafkapy.storage.damage.policy import DamagePolicy, DamageTruncatesError
from kafkapy.storage.disk.checkpoints import LEADER_EPOCHS
from kafkapy.storage.disk.errors import StorageError
from kafkapy.storage.disk.files import File, release_all
from kafkapy.storage.log.append import AppendInfo, append, roll
from kafkapy.storage.log.flush import FlushTicket, UnsyncedFiles
from kafkapy.storage.log.invariants import check_log
from kafkapy.storage.log.log_reader import LogRead, TimestampOffset
from kafkapy.storage.log.log_state import DAMAGE, LogState
from kafkapy.storage.log.retention import ALL, delete_old_segments
from kafkapy.storage.log.timestamp_search import TimestampSearch
from kafkapy.storage.log.truncation import Truncator
from kafkapy.storage.log.txn_index import AbortedTxn
from kafkapy.storage.log.validate import REPLICATION, AppendOrigin, PreparedBatches, prepare_batches
from kafkapy.storage.log.verification import Verification

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
        """The offset from which recovery has to read the log.

        Everything below it is on disk, and its leader epochs are in their checkpoint.
        """
        return min(self.flushed_offset, self.leader_epochs.saved_below)

    def adopt_damage_policy(self, policy: DamagePolicy) -> None:
        """Use `policy` from now on, for the damage that is known too.

        Raises:
            KafkaError: CORRUPT_MESSAGE, the producers' states cannot be read.
            StorageError: the disk failed.
        """
        self.reader.damage_policy = policy
        policy.adopt(self)

    # --- appending ------------------------------------------------------------------------------------------

    def append(
        self,
        records: memoryview,
        *,
        leader_epoch: int,
        origin: AppendOrigin,
        now_ms: int,
        verification: Verification | None = None,
    ) -> AppendInfo:
        """Validate batches, give them the next offsets and write them.

        The buffer is changed in place. A batch that begins a transaction needs a `verification`.

        Raises:
            KafkaError: the batches are refused.
            StorageError: the disk is full, or failed.
        """
        prepared = prepare_batches(records, config=self.config, origin=origin, now_ms=now_ms)
        return self.append_prepared(
            prepared, leader_epoch=leader_epoch, origin=origin, now_ms=now_ms, verification=verification
        )

    def append_prepared(
        self,
        prepared: PreparedBatches,
        *,
        leader_epoch: int,
        origin: AppendOrigin,
        now_ms: int,
        verification: Verification | None = None,
    ) -> AppendInfo:
        """Give validated batches the next offsets and write them.

        A batch that begins a transaction needs a `verification`.

        Raises:
            KafkaError: the batches do not fit the state of their producers.
            StorageError: the disk is full, or failed.
        """
        log_directory = self.log_directory
        if log_directory.error is not None or self.unfinished_truncation is not None:
            self._require_complete()
        probe = log_directory.probe
        if log_directory.flush_overdue or (probe is not None and not probe.passes()):
            raise log_directory.stuck()
        log_append_time = now_ms if self.config.message_timestamp_type == "LogAppendTime" else NO_TIMESTAMP
        end_offset = prepared.assign(
            self.log_end_offset, leader_epoch=leader_epoch, log_append_time=log_append_time
        )
        return append(self, prepared, end_offset, origin, log_append_time, now_ms, verification)

    def append_as_follower(self, records: memoryview, *, now_ms: int) -> AppendInfo:
        """Write batches as the leader has them, with its offsets and epochs.

        Raises:
            KafkaError: CORRUPT_MESSAGE or INVALID_RECORD, for instance if an offset is below the log end
                offset.
            StorageError: the disk is full, or failed.
        """
        self._require_writable()
        prepared = prepare_batches(records, config=self.config, origin=REPLICATION, now_ms=now_ms)
        expected = self.log_end_offset
        for batch in prepared.batches:
            if batch.header.base_offset < expected:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD,
                    f"Offset {batch.header.base_offset} where {expected} is next in {self.topic_partition}.",
                )
            expected = batch.header.next_offset
        return append(self, prepared, expected, REPLICATION, NO_TIMESTAMP, now_ms)

    def roll(self, first_offset: int = 0) -> None:
        """Close the active segment and start a new one, unless it is empty.

        The new one begins at the log end offset, or at `first_offset` if that is higher.

        Raises:
            StorageError: the disk is full, or failed.
        """
        self._require_writable()
        self.guarded("creating", self.make_files)
        self.guarded("rolling", lambda: roll(self, first_offset))

    # --- flushing -------------------------------------------------------------------------------------------

    def prepare_flush(self) -> FlushTicket | None:
        """A flush of everything below the log end offset.

        None if everything is on disk, or the partition was deleted. Call `ticket.run()` in a worker thread,
        then `complete_flush`, or `abort_flush` if `run` raised an error.

        Raises:
            StorageError: a file cannot be opened; nothing has changed.
        """
        self._require_complete()
        unsynced, active, end_offset = self.unsynced, self.segments.active, self.log_end_offset
        has_more = bool(unsynced)
        if self.abandoned or (end_offset <= self.flushed_offset and not has_more):
            return None
        files: list[File] = []
        taken: UnsyncedFiles | None = None
        try:
            self.make_files()
            if has_more:
                files = unsynced.open_segments()
            files.append(active.file.acquire())
            ticket = FlushTicket(self.log_directory, end_offset, self.generation, files)
            self.reader.remember(end_offset, active, active.size)
            if has_more:
                taken = unsynced.take()
                ticket.cover(taken)
        except BaseException as error:
            unsynced.put_back(taken)
            release_all(files)
            if isinstance(error, (OSError, MemoryError, *DAMAGE)):
                raise self.translated("preparing a flush of", error) from error
            raise
        self.ticket = ticket
        return ticket

    def complete_flush(self, ticket: FlushTicket) -> None:
        """Raise the flushed offset to the end of a flush that succeeded."""
        ticket.release()
        if ticket.taken is not None:
            self.unsynced.give_up(ticket.taken)
        if ticket.generation == self.generation and ticket.end_offset > self.flushed_offset:
            self.flushed_offset = ticket.end_offset
        self.last_flush_ms = self.log_directory.clock.now_ms()
        self.ticket = None

    def abort_flush(self, ticket: FlushTicket, error: BaseException) -> None:
        """Give up a flush because `ticket.run` raised `error`; the flushed offset does not move.

        A StorageError takes the log directory offline, unless it is transient. The next flush has to sync the
        same files.
        """
        ticket.release()
        self.unsynced.put_back(ticket.taken)
        self.ticket = None
        if isinstance(error, StorageError):
            self.log_directory.failed(f"flushing {self.path}", error)

    @property
    def has_unflushed_segments(self) -> bool:
        """Whether a closed segment is not synced yet, so that a background flush is due."""
        return bool(self.unsynced.segments)

    def flush(self) -> None:
        """Sync everything in the calling thread.

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
        """Complete batches from the one that holds `offset`, all below `upper_bound`.

        None if there are none. They have at most `max_bytes`, unless `min_one_batch` is set and the first
        batch is larger. With `pass_empty`, batches without records are skipped if the read would return
        nothing else. The caller releases the slice.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, or CORRUPT_MESSAGE if `offset` is damaged and the damage policy
                is to serve around that.
            StorageError: the disk failed.
            NotReadyError: inside of `cached_only`, something has to be provided first.
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
            every = self.cleaned_offset is None and not self.config.is_compacted
            found = self.reader.read(offset, max_bytes, upper_bound, end_offset, min_one_batch, every)
            if pass_empty and found is not None and found.slice.nbytes % HEADER_SIZE == 0:
                rest = (max_bytes, upper_bound, end_offset, min_one_batch, every)
                found = self.reader.past_empty(found, *rest)
            return found
        except DamageTruncatesError:
            with self.log_directory.files.waiting_for_disk():  # nothing may cut the truncation off
                self.truncate_at_damage()
        except (OSError, MemoryError, *DAMAGE) as error:
            raise self.translated("reading", error) from error
        return self.read(
            offset, max_bytes, upper_bound=upper_bound, min_one_batch=min_one_batch, pass_empty=pass_empty
        )

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

    def aborted_transactions(self, first: int, end: int) -> list[AbortedTxn]:
        """The aborted transactions that have records in offsets `first` to `end`, exclusive.

        Raises:
            KafkaError: CORRUPT_MESSAGE, a segment is damaged.
            StorageError: the disk failed.
        """
        return self.guarded("reading", lambda: self.segments.aborted_transactions(first, end))

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest leader epoch not above `epoch`, and its end offset; (-1, -1) if unknown."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    # --- truncating -----------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Remove every batch that holds `offset` or anything above; return whether there were any.

        The log then ends after its last batch, which may be below `offset`.

        Raises:
            StorageError: the disk failed.
        """
        return self._truncate(lambda: Truncator(self).truncate_to(offset))

    def truncate_at_damage(self) -> None:
        """Truncate the log at the first known damage; without any, do nothing.

        A follower has to fetch from the new log end offset: an answer to an earlier fetch leaves a gap.

        Raises:
            KafkaError: CORRUPT_MESSAGE, the producers' states cannot be read.
            StorageError: the disk failed.
        """
        if any(segment.damage for segment in self.segments):
            self._truncate(lambda: Truncator(self).truncate_at_damage())

    def _truncate(self, call: Callable[[], T]) -> T:
        """Run a truncation, and lower `cleaned_offset` to the new log end offset."""
        self._require_writable()
        self.stop_cleaning()
        result = self._all_or_offline("truncating", call)
        if self.cleaned_offset is not None:
            self.cleaned_offset = min(self.cleaned_offset, self.log_end_offset)
        if self.truncated is not None:
            self.truncated()
        return result

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove every batch and begin at `offset`.

        Raises:
            StorageError: the disk failed.
        """
        self._require_writable()
        self.stop_cleaning()
        self._all_or_offline("truncating", lambda: Truncator(self).truncate_fully_and_start_at(offset))

    def _require_writable(self) -> None:
        """Let nothing write to a stuck directory, and complete a truncation that stopped half-way.

        Raises:
            StorageError: the log directory is stuck or offline, or what the truncation needs is lacking.
        """
        self.log_directory.require_writable()
        self._require_complete()

    def _require_complete(self) -> None:
        """Complete a truncation that stopped half-way.

        Raises:
            StorageError: the log directory is offline, or what the truncation needs is still lacking.
        """
        if self.log_directory.error is not None:
            self.log_directory.require_online()
        if self.unfinished_truncation is not None:
            self._all_or_offline("truncating", self.unfinished_truncation)

    def delete_old_segments(self, now_ms: int, most: int = ALL) -> int:
        """Delete at most `most` segments that retention does not keep; return how many.

        Raises:
            StorageError: the disk failed.
        """
        self._require_writable()
        return self.guarded(
            "deleting segments of", lambda: delete_old_segments(self, Truncator(self), now_ms, most)
        )

    # --- compaction -----------------------------------------------------------------------------------------

    def replace_segments(self, swap: Callable[[LogState], None]) -> None:
        """Let a compaction replace segments by their compacted one (cleaning/swap.py).

        Raises:
            CleaningAbortedError: the log changed meanwhile.
            StorageError: the disk failed.
        """
        self.log_directory.require_writable()
        self._all_or_offline("compacting", lambda: swap(self))

    def stop_cleaning(self) -> None:
        """End a compaction under way without effect: the log is about to change.

        Raises:
            StorageError: the disk failed, and the log directory was online until now.
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
        """Sync and trim the files, and save a producer snapshot at the log end offset.

        Raises:
            StorageError: the disk is full, or failed. The log is not cleanly closed.
        """
        self._require_complete()
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
        if self.unsynced or self.flushed_offset < self.log_end_offset:
            self.flush()  # the names of new files too: the next process takes them to be on disk
        if self.leader_epochs.unsaved:
            path = f"{self.path}/{LEADER_EPOCHS}"
            self.leader_epochs.save(log_directory.files, path, durable=log_directory.syncs_each)
        self.close_files()

    def close_files(self) -> None:
        """Close every file; they open again on use."""
        for segment in self.segments:
            segment.close_files()

    def forget_unwritten(self) -> None:
        """Drop the index entries that are not written: nobody reads a deleted log."""
        for segment in self.segments:
            segment.indexes.forget_unwritten()

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

        Nothing is flushed any more. A flush under way ignores missing files.

        Raises:
            StorageError: the disk failed.
        """
        self.abandoned = True
        self.unfinished_truncation = None
        if self.ticket is not None:
            self.ticket.abandoned = True
        self.stop_cleaning()
        for segment in self.segments:
            segment.indexes.stop_repair()

    def check(self) -> None:
        """Assert the invariants, for tests: this reads the entire log."""
        self.make_files()
        check_log(self)

    # --- errors ---------------------------------------------------------------------------------------------

    def _all_or_offline(self, what: str, call: Callable[[], T]) -> T:
        """Run `call`.

        Any failure takes the log directory offline, as `call` may stop half-way.
        """

        def call_or_fail() -> T:
            try:
                return call()
            except (OSError, MemoryError) as error:
                raise self.log_directory.failed(f"{what} {self.path}", error) from error

        self.guarded("creating", self.make_files)
        return self.guarded(what, call_or_fail)
