"""The copies that move logs to other directories, and the logs that they have replaced.

future_log.py describes moves, and crashes during them. Everything is called on the event loop, except the
function that `delete_replaced` returns.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import ZERO_UUID, TopicPartition, Uuid
from kafkapy.storage.directories.future_log import FutureLog, unmark
from kafkapy.storage.disk.directory_names import future_name
from kafkapy.storage.disk.errors import StorageError
from kafkapy.storage.disk.log_directory import LogDirectory
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)


class MovingLogs(Protocol):
    """The parts of the log manager that moves use (log_manager.py)."""

    @property
    def logs(self) -> Mapping[TopicPartition, PartitionLog]:
        """Every log that was opened."""

    @property
    def offline_dirs(self) -> Sequence[Path]:
        """The log directories that failed, or are missing."""

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """The log of a partition; None if there is none."""

    def create_in(
        self,
        directory: LogDirectory,
        name: str,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
    ) -> PartitionLog:
        """A new log in a directory."""

    def add(self, log: PartitionLog) -> None:
        """Make `log` the log of its partition."""

    def discard(self, log: PartitionLog) -> None:
        """Have the files of a log removed."""


class LogMoves:
    """The logs of a log manager that are not served: copies and replaced logs."""

    def __init__(self, manager: MovingLogs) -> None:
        self._manager = manager
        self.copies: dict[TopicPartition, PartitionLog] = {}
        """The copies that are going to replace logs, in other directories than theirs."""
        self.replaced: dict[TopicPartition, PartitionLog] = {}
        """The logs that a copy has replaced, until their directories are renamed."""

    def __iter__(self) -> Iterator[PartitionLog]:
        yield from self.copies.values()
        yield from self.replaced.values()

    def create_copy(self, topic_partition: TopicPartition, directory: LogDirectory) -> PartitionLog:
        """An empty copy of a log, in another directory.

        Raises:
            KafkaError: INVALID_TOPIC_EXCEPTION, the topic's name is too long.
            StorageError: the disk is full or failed, or a log directory that may hold a copy is offline.
        """
        offline = self._manager.offline_dirs
        if offline:
            raise StorageError(
                offline[0], f"{topic_partition} may have a copy in a directory that is offline."
            )
        name = future_name(topic_partition)
        if name is None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
        log = self._manager.logs[topic_partition]
        log.stop_cleaning()
        future = self._manager.create_in(
            directory, name, topic_partition, log.topic_id or ZERO_UUID, log.config
        )
        try:
            future.guarded("creating", future.make_files)
        except KafkaError:
            directory.log_count -= 1
            raise
        log.stop_cleaning()  # The log must not be compacted until the copy has all of it.
        self.copies[topic_partition] = future
        return future

    def promote(self, topic_partition: TopicPartition, topic_id: Uuid) -> None:
        """Make the copy the log if the log itself is gone, because its disk was replaced.

        Raises:
            StorageError: the disk failed.
        """
        manager, copy = self._manager, self.copies[topic_partition]
        if copy.topic_id != topic_id or manager.offline_dirs or manager.get(topic_partition) is not None:
            return
        path = f"{copy.log_directory.path}/{topic_partition}"
        logger.warning(
            "The log of %s is gone; its copy %s, which ends at offset %d, replaces it.",
            topic_partition,
            copy.path,
            copy.log_end_offset,
        )
        try:
            copy.log_directory.files.rename(copy.path, path)
        except OSError as error:
            raise copy.log_directory.failed(f"renaming {copy.path}", error) from error
        copy.moved_to(path)
        copy.unsynced.directories[copy.log_directory.path] = None
        del self.copies[topic_partition]
        manager.add(copy)

    def delete_copy(self, topic_partition: TopicPartition) -> None:
        """Delete the copy of a log.

        In an offline directory its files are kept.

        Raises:
            StorageError: the disk failed.
        """
        future = self.copies.pop(topic_partition, None)
        if future is not None:
            future.log_directory.log_count -= 1
            if future.log_directory.error is None:
                self._manager.discard(future)

    def take_over(self, move: FutureLog) -> None:
        """Replace the log by its copy.

        The old log keeps its directory until `delete_replaced`.

        Raises:
            StorageError: the disk failed, and nothing has changed.
        """
        copy, topic_partition = move.copy, move.copy.topic_partition
        try:
            move.take_over(f"{copy.log_directory.path}/{topic_partition}")
        except OSError as error:
            raise copy.log_directory.failed(f"renaming {copy.path}", error) from error
        self.replaced[topic_partition] = self._manager.logs[topic_partition]
        self._manager.add(copy)
        del self.copies[topic_partition]

    def delete_replaced(self, topic_partition: TopicPartition) -> Callable[[], None]:
        """Have the old log removed, as the new one is on disk.

        The returned function syncs that; any thread may call it. If the directory fails, the next start
        removes the old log.

        Raises:
            StuckError: the old log's directory takes no writes at present. Call this again.
        """
        old, log = self.replaced[topic_partition], self._manager.logs[topic_partition]
        directory = old.log_directory
        if directory.error is None:
            directory.require_writable()
        del self.replaced[topic_partition]
        directory.log_count -= 1
        if directory.error is None:
            try:
                self._manager.discard(old)
            except StorageError as error:
                logger.error("%s was not removed: %s", old.path, error.message)
        old.forget_unwritten()
        old.close_files()

        def settle() -> None:
            if directory.error is None:
                try:
                    directory.files.sync_directory(directory.path)
                    unmark(log.log_directory.files, log, durable=True)
                except OSError as error:
                    logger.error("%s is still marked as a log that was moved: %s", log.path, error)

        return settle
