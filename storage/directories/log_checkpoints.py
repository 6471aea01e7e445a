"""What the checkpoint files of all log directories say, and are to say: offsets of logs.

A directory has one file of each kind (offset_checkpoint.py). For logs that are not served (damaged ones) what
the file said stays. Everything is called from the event loop's thread, except the function that `prepare`
returns.

Crash story: a log start offset is written after a high watermark that reaches it. A crash may take unsynced
records, the log start offset among them: recovery then believes the offset, and gives none twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.directories.epoch_saves import begin_saves, save
from kafkapy.storage.directories.offset_checkpoint import CHECKPOINTS, CLEANER_OFFSETS, OffsetCheckpoint
from kafkapy.storage.disk.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from kafkapy.storage.disk.files import StorageError
from kafkapy.storage.disk.log_directory import LogDirectory
from kafkapy.storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)


class HostedLogs(Protocol):
    """The logs that the checkpoints are about (log_manager.py)."""

    def all_logs(self) -> Iterator[PartitionLog]:
        """Every log, and the copies of logs that move."""

    def damaged_in(self, directory: LogDirectory) -> Iterator[TopicPartition]:
        """The partitions whose logs are in a directory and are not served."""


class LogCheckpoints:
    """The checkpoint files of a log manager's directories."""

    def __init__(self, logs: HostedLogs) -> None:
        self._logs = logs
        self._files: dict[LogDirectory, dict[str, OffsetCheckpoint]] = {}

    def read(self, directory: LogDirectory) -> Mapping[str, OffsetCheckpoint]:
        """Read the files of a directory, by their names.

        Raises:
            OSError: the disk failed.
        """
        self._files[directory] = {name: OffsetCheckpoint(directory, name) for name in CHECKPOINTS}
        return self._files[directory]

    def on_disk(self, directory: LogDirectory, name: str) -> Mapping[TopicPartition, int]:
        """What a file says."""
        return self._files[directory][name].written

    def mention(self, directory: LogDirectory, topic_partition: TopicPartition) -> bool:
        """Whether a file of the directory says anything about the partition."""
        return any(topic_partition in each.written for each in self._files[directory].values())

    def known_end(self, topic_partition: TopicPartition) -> tuple[LogDirectory | None, int]:
        """How far a partition once reached, at least, and where it was.

        It is 0 if nothing is said of it.
        """
        ends = [
            (directory, files[name].written.get(topic_partition, 0))
            for directory, files in self._files.items()
            for name in (RECOVERY_POINTS, HIGH_WATERMARKS)
        ]
        return max(ends, key=lambda each: each[1], default=(None, 0))

    def forget(self, directory: LogDirectory, topic_partition: TopicPartition) -> None:
        """Drop what is said about a deleted log, so that a new one does not get it after a crash.

        Raises:
            StorageError: the disk is full, or failed.
        """
        for name, file in self._files[directory].items():
            if file.mentions(topic_partition):
                self._prepare(directory, name)()

    def before_truncation(self, directory: LogDirectory) -> None:
        """Write the recovery points of a directory, before one of its logs is truncated.

        The log is truncated below its own recovery point.
        """
        self._files[directory][RECOVERY_POINTS].write(self._offsets(directory, RECOVERY_POINTS))

    def prepare(self, name: str) -> Callable[[], None]:
        """Collect what the files of this name are to say; return the function that writes them."""
        return _all_of(self._prepare(directory, name) for directory in self._files if directory.error is None)

    def _prepare(self, directory: LogDirectory, name: str) -> Callable[[], None]:
        offsets = self._offsets(directory, name)
        write = self._files[directory][name].prepare(offsets)
        if name != LOG_START_OFFSETS:
            return write
        starting = [log for log in self._logs_in(directory) if log.topic_partition in offsets]
        return self._after_high_watermarks(directory, starting, write)

    def _after_high_watermarks(
        self, directory: LogDirectory, logs: Iterable[PartitionLog], write_log_starts: Callable[[], None]
    ) -> Callable[[], None]:
        """Have log start offsets written after the high watermarks that they lack on disk."""
        file = self._files[directory][HIGH_WATERMARKS]
        lacking = {
            log.topic_partition: log.high_watermark
            for log in logs
            if log.log_start_offset > file.written.get(log.topic_partition, 0)
        }
        if not lacking:
            return write_log_starts
        write_high_watermarks = file.prepare_changes(lacking)

        def write() -> None:
            write_high_watermarks()
            write_log_starts()

        return write

    def prepare_recovery_points(self) -> Callable[[], None]:
        """Collect the recovery points, and the leader epochs they rely on.

        Returns the function that writes both.
        """
        return _all_of(
            self._prepare_recovery_points(directory) for directory in self._files if directory.error is None
        )

    def _prepare_recovery_points(self, directory: LogDirectory) -> Callable[[], None]:
        offsets = self._offsets(directory, RECOVERY_POINTS)
        saves = begin_saves(self._logs_in(directory))
        for each in saves:
            offsets[each.log.topic_partition] = each.log.flushed_offset
        write_offsets = self._files[directory][RECOVERY_POINTS].prepare(offsets)

        def write() -> None:
            for failed in save(directory, saves):
                offsets[failed.log.topic_partition] = failed.recovery_point
            write_offsets()

        return write

    def prepare_log_starts(self, logs: Iterable[PartitionLog]) -> Callable[[], None]:
        """Collect the log start offsets of a few logs.

        Returns the function that writes them, besides those of the others.
        """
        changed: dict[LogDirectory, list[PartitionLog]] = {}
        for log in logs:
            changed.setdefault(log.log_directory, []).append(log)
        return _all_of(
            self._prepare_log_starts(directory, each)
            for directory, each in changed.items()
            if directory.error is None
        )

    def _prepare_log_starts(self, directory: LogDirectory, logs: list[PartitionLog]) -> Callable[[], None]:
        offsets = {log.topic_partition: log.log_start_offset for log in logs}
        write = self._files[directory][LOG_START_OFFSETS].prepare_changes(offsets)
        return self._after_high_watermarks(directory, logs, write)

    def save_leader_epochs(self) -> None:
        """Save the leader epochs of all logs, here and now, as far as possible."""
        for directory in self._files:
            save(directory, begin_saves(self._logs_in(directory)))

    def _logs_in(self, directory: LogDirectory) -> Iterator[PartitionLog]:
        return (log for log in self._logs.all_logs() if log.log_directory is directory)

    def write_all(self, directory: LogDirectory) -> None:
        """Write every file of a directory.

        Raises:
            StorageError: the disk is full, or failed.
        """
        for name in self._files[directory]:
            self._prepare(directory, name)()

    def __contains__(self, directory: LogDirectory) -> bool:
        """Whether the directory's files were read."""
        return directory in self._files

    def _offsets(self, directory: LogDirectory, name: str) -> dict[TopicPartition, int]:
        logs = list(self._logs_in(directory))
        if name == HIGH_WATERMARKS:
            offsets = {log.topic_partition: log.high_watermark for log in logs}
        elif name == RECOVERY_POINTS:
            offsets = {log.topic_partition: log.recovery_point for log in logs}
        elif name == CLEANER_OFFSETS:
            offsets = {
                log.topic_partition: min(log.cleaned_offset, log.log_end_offset)
                for log in logs
                if log.cleaned_offset is not None
            }
        else:
            # What was said once stays: a crash may bring back segments whose removal is not on disk yet.
            written = self._files[directory][name].written
            offsets = {
                log.topic_partition: log.log_start_offset
                for log in logs
                if log.log_start_offset > log.segments.first.base_offset or log.topic_partition in written
            }
        for topic_partition in self._logs.damaged_in(directory):
            known = self._files[directory][name].written.get(topic_partition)
            if known is not None:
                offsets[topic_partition] = known
        return offsets


def _all_of(writes: Iterable[Callable[[], None]]) -> Callable[[], None]:
    """The function that calls each of these functions."""
    collected = tuple(writes)

    def write() -> None:
        for each in collected:
            try:
                each()
            except StorageError as error:
                # A checkpoint that is out of date only makes the next recovery longer.
                logger.error("%s", error.message)

    return write
