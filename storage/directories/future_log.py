"""Moves a log to another log directory, by a copy that catches up and replaces the log.

    <other log dir>/<topic>-<partition>.<32 hex>-future/    the copy, until it takes over
        .kafkapy_replaces                                   from shortly before it takes over until the old
                                                            log is gone: the old log's path

The copy reads the log as a consumer does, in pieces, and follows its end. When it has all records, and they
are synced, it takes over between two requests: its directory gets the log's name, and the log in memory is
replaced. Later records are acknowledged only after the last piece of the copy and its new name are synced and
the old directory is renamed to `-delete`.

Crash story, by the time of the crash:

- while the copy catches up: both directories exist at the next start, and copying continues.
- between the two renames: two directories have the log's name, and one of them has `.kafkapy_replaces`. At
  the first rename both had the same records, and only the copy was written after it. So the log with the
  higher last leader epoch (if they are equal, with the higher log end offset) has all acknowledged records
  (`newer`), and the other one is deleted. The leader epoch rises at each start of the broker, so this is also
  right if one of the directories was offline for some time.
- after the second rename: a mark without an old log has no meaning, and is removed.

Apache Kafka renames in this order too, but in the second case it refuses to start and leaves the choice to
the operator.

Threads: methods that use the log run on the event loop. `write`, `sync` and `mark` run in any thread, one at
a time. Only this class uses the copy.

Source: KIP-113, ReplicaAlterLogDirsThread, LogManager.replaceCurrentWithFutureLog.
"""

from __future__ import annotations

from typing import Final

from kafkapy.storage.disk.files import FileSlice, FileSystem
from kafkapy.storage.log.partition_log import PartitionLog

REPLACES: Final = ".kafkapy_replaces"

SYNC_BYTES: Final = 64 << 20
"""The bytes that are written between two syncs, so that the last one does not take long."""


def newer(one: PartitionLog, other: PartitionLog) -> PartitionLog:
    """The one of two logs of a partition that has all records.

    One of them was about to replace the other when the broker stopped.
    """
    return max(one, other, key=lambda log: (log.leader_epochs.latest_epoch, log.log_end_offset))


def is_marked(files: FileSystem, log: PartitionLog) -> bool:
    """Whether a log was made to replace another one, which may still exist."""
    return files.exists(f"{log.path}/{REPLACES}")


def unmark(files: FileSystem, log: PartitionLog, *, durable: bool) -> None:
    """Remove the mark: the log that was replaced is gone.

    Raises:
        OSError: the disk failed.
    """
    files.unlink(f"{log.path}/{REPLACES}")
    if durable:
        files.sync_directory(log.path)


class FutureLog:
    """A copy that is going to replace its log."""

    piece_bytes: int = 1 << 20
    """The bytes that are read and written at once."""

    def __init__(self, source: PartitionLog, copy: PartitionLog) -> None:
        self.source = source
        self.copy = copy
        self._generation = source.generation
        self._unsynced_bytes = 0

    def resume(self) -> None:
        """Truncate the records that the copy has and the log has not, after a pause of the copying.

        If the log is compacted, the copy begins again: the log may have lost tombstones, whose deleted
        records the copy may still have.

        Raises:
            StorageError: the disk failed.
        """
        source, copy = self.source, self.copy
        generation = source.generation
        if source.config.is_compacted:
            copy.leader_epochs.clear()
        while entries := copy.leader_epochs.entries:
            latest, first_offset = entries[-1]
            epoch, end = source.end_offset_for_epoch(latest)
            if epoch == latest:
                copy.truncate_to(end)
                break
            # The log does not know that epoch, so it has none of its records.
            copy.truncate_to(first_offset if epoch < 0 else min(first_offset, end))
        else:
            copy.truncate_fully_and_start_at(source.log_start_offset)
        self._generation = generation  # last, so that a truncation that failed is tried again
        self.hand_over()

    def next_piece(self) -> FileSlice | None:
        """The next batches for the copy, to be written and released; None if it has all.

        Raises:
            KafkaError: CORRUPT_MESSAGE, the log is damaged.
            StorageError: a disk failed.
        """
        source, copy = self.source, self.copy
        if source.generation != self._generation:
            self.resume()
        start = source.log_start_offset
        if copy.log_end_offset < start:
            copy.truncate_fully_and_start_at(start)
            self.hand_over()
        read = source.read(copy.log_end_offset, self.piece_bytes, upper_bound=source.log_end_offset)
        end = source.log_end_offset  # the read may have met damage, and truncated the log
        if read is not None:
            if copy.size == 0:
                self._begin_with(read.slice)
            return read.slice
        if copy.log_end_offset < end:
            # Compaction removed the last batches, and the log ends with an empty segment.
            copy.roll(end)
            copy.log_end_offset = end
            self.hand_over()
        return None

    def _begin_with(self, piece: FileSlice) -> None:
        """Let the copy begin at the base offset of its first batch, if that is lower."""
        source, copy = self.source, self.copy
        files = source.log_directory.files
        head = source.guarded("reading", lambda: files.read_at(piece.file, 8, piece.position))
        base_offset = int.from_bytes(head, "big")
        if base_offset < copy.log_end_offset:
            copy.truncate_fully_and_start_at(base_offset)
            self.hand_over()

    def hand_over(self) -> None:
        """Close the copy's files, before another thread uses it.

        Otherwise the event loop might close files that it has opened while the other thread uses them
        (open_files.py).
        """
        self.copy.close_files()

    def write(self, piece: FileSlice) -> None:
        """Append a piece to the copy.

        Raises:
            KafkaError: CORRUPT_MESSAGE, the log is damaged.
            StorageError: a disk failed, or is full.
        """
        copy, source = self.copy, self.source
        try:
            data = bytearray(piece.read())
        except (OSError, MemoryError) as error:
            raise source.translated("reading", error) from error
        now_ms = copy.log_directory.clock.now_ms()
        copy.append_as_follower(memoryview(data), now_ms=now_ms)
        copy.advance_high_watermark(copy.log_end_offset)
        copy.advance_log_start_offset(min(source.log_start_offset, copy.high_watermark))
        self._unsynced_bytes += len(data)
        if self._unsynced_bytes >= SYNC_BYTES:
            self.sync()

    def sync(self) -> None:
        """Sync the copy.

        Raises:
            StorageError: the disk failed.
        """
        self._unsynced_bytes = 0
        self.copy.flush()

    def mark(self) -> None:
        """Note on disk which log the copy is going to replace.

        Raises:
            StorageError: the disk failed, or is full.
        """
        copy = self.copy
        path, content = f"{copy.path}/{REPLACES}", self.source.path.encode() + b"\n"
        files = copy.log_directory.files
        copy.guarded("marking", lambda: files.write_atomically(path, content))

    def take_over(self, path: str) -> None:
        """Make the copy the log, at `path`, between two appends.

        The copy has the same records, and takes the state of the log.

        Raises:
            OSError: the rename failed, and nothing has changed.
        """
        source, copy = self.source, self.copy
        directory = copy.log_directory
        directory.files.rename(copy.path, path)
        copy.moved_to(path)
        copy.unsynced.directories[directory.path] = None
        copy.config = source.config
        copy.cleaned_offset = source.cleaned_offset
        copy.producers = source.producers
        copy.leader_epochs.become(source.leader_epochs)
        copy.high_watermark = source.high_watermark
        copy.log_start_offset = source.log_start_offset
