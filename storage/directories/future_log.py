"""Moving a log to another log directory: a copy that catches up, and takes the log's place.

    <other log dir>/<topic>-<partition>.<32 hex>-future/    the copy, until it takes over
        .kafkapy_replaces                                   from shortly before it takes over until the old
                                                            log is gone: the old log's path

The copy reads the log as a consumer does, piece by piece, and follows its end. When nothing is missing and
all of the copy is synced, it takes over between two requests: its directory is renamed to the log's own name,
and the log in memory is replaced. What is written from then on is acknowledged only after the copy's last
piece and its new name are synced and the old directory is renamed to `-delete`.

Crash story, by where it happens:

- while the copy catches up: both directories are there at the next start, and copying goes on.
- between the two renames: two directories bear the log's name, and one of them has `.kafkapy_replaces`. Up to
  the moment of the first rename both had the same records, and only the copy was written since. So the log
  with the higher last leader epoch (if they are equal, with the higher end) is the one that has all that was
  acknowledged (`newer`); the other is deleted. A leader epoch counts the starts of the broker. So this also
  holds if one of the directories was offline for some time.
- after the second rename: a mark without an old log means nothing, and is removed.

Apache Kafka renames in this order too, but refuses to start in the second case and leaves the choice to the
operator.

Threads: whatever looks at the log runs in the event loop's thread; `write`, `sync` and `mark` run in any one
thread at a time. Nobody else uses the copy.

Source: KIP-113, ReplicaAlterLogDirsThread, LogManager.replaceCurrentWithFutureLog.
"""

from __future__ import annotations

import uuid
from typing import Final

from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.disk.files import FileSlice, FileSystem
from kafkapy.storage.log.partition_log import PartitionLog

REPLACES: Final = ".kafkapy_replaces"

PIECE_BYTES: Final = 1 << 20
"""What is read and written at once."""

SYNC_BYTES: Final = 64 << 20
"""What is written between two syncs: the last one should not take long."""

_MAX_NAME = 255


def future_name(topic_partition: TopicPartition) -> str | None:
    """The name of a directory for a copy; None if the topic's name is too long for that."""
    name = f"{topic_partition}.{uuid.uuid4().hex}-future"
    return name if len(name) <= _MAX_NAME else None


def newer(one: PartitionLog, other: PartitionLog) -> PartitionLog:
    """The one of two logs of a partition that has all records.

    One of them was about to replace the other.
    """
    return max(one, other, key=lambda log: (log.leader_epochs.latest_epoch, log.log_end_offset))


def is_marked(files: FileSystem, log: PartitionLog) -> bool:
    """Whether a log was made to replace another one, which may still be there."""
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
    """The copy of a log that is to take the log's place."""

    def __init__(self, source: PartitionLog, copy: PartitionLog) -> None:
        self.source = source
        self.copy = copy
        self._generation = source.generation
        self._unsynced_bytes = 0

    def resume(self) -> None:
        """Truncate what the copy has and the log has not: they were apart for some time.

        Of a compacted log nothing is kept: tombstones may be gone since, and the copy may hold what they
        deleted.

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
            # The log knows nothing of that epoch, so it cannot hold what the copy has of it.
            copy.truncate_to(first_offset if epoch < 0 else min(first_offset, end))
        else:
            copy.truncate_fully_and_start_at(source.log_start_offset)
        self._generation = generation  # last: if no descriptor was free, the truncation is tried again
        self.hand_over()

    def next_piece(self) -> FileSlice | None:
        """The batches after the end of the copy, to be written and released; None if it has all.

        Raises:
            KafkaError: CORRUPT_MESSAGE, the log is damaged.
            StorageError: a disk failed.
        """
        source, copy = self.source, self.copy
        if source.generation != self._generation:
            self.resume()
        start, end = source.log_start_offset, source.log_end_offset
        if copy.log_end_offset < start:
            copy.truncate_fully_and_start_at(start)
            self.hand_over()
        read = source.read(copy.log_end_offset, PIECE_BYTES, upper_bound=end)
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
        """Let the copy begin with the batch that holds its first offset, and not within it."""
        source, copy = self.source, self.copy
        files = source.log_directory.files
        head = source.guarded("reading", lambda: files.read_at(piece.file, 8, piece.position))
        base_offset = int.from_bytes(head, "big")
        if base_offset < copy.log_end_offset:
            copy.truncate_fully_and_start_at(base_offset)
            self.hand_over()

    def hand_over(self) -> None:
        """Let another thread go on.

        The loop might close again what it has opened, perhaps while the other thread uses it (open_files.py).
        """
        self.copy.close_files()

    def write(self, piece: FileSlice) -> None:
        """Append a piece, which has valid batches or is refused.

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
        """Put all of the copy on disk.

        Raises:
            StorageError: the disk failed.
        """
        self._unsynced_bytes = 0
        self.copy.flush()

    def mark(self) -> None:
        """Note on disk what the copy replaces, before it does.

        Raises:
            StorageError: the disk failed, or is full.
        """
        copy = self.copy
        path, content = f"{copy.path}/{REPLACES}", self.source.path.encode() + b"\n"
        files = copy.log_directory.files
        copy.guarded("marking", lambda: files.write_atomically(path, content))

    def take_over(self, path: str) -> None:
        """Become the log, at `path`, between two of its appends.

        The copy has the same records, and takes over all that is known of them.

        Raises:
            OSError: the renaming failed; the copy is still one.
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
