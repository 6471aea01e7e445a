"""The checkpoint files of all log directories, with offsets of their logs.

A directory has one file of each kind. Entries of logs that are not served (damaged ones) are kept. Everything
is called on the event loop, except the returned functions, which write the files and may run in any thread.

Two writes of a file may overlap: a periodic one in a worker thread, and one that a truncation or a new log
needs at once. The newer one wins: offsets that were collected earlier are not written after it.

Crash story: a file is replaced atomically (files.py). On a full disk the write may use the reserve. If that
is used up too, the old file is kept, and recovery reads more than necessary. A log start offset is written
after a high watermark that is not below it. If a crash takes unsynced records below the log start offset,
recovery uses that offset, so that no offset is given twice.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Protocol

from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.directories.epoch_saves import begin_saves, save
from kafkapy.storage.disk.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    OFFSET_CHECKPOINTS,
    RECOVERY_POINTS,
    CorruptCheckpointError,
    read_offsets,
    write_offsets,
)
from kafkapy.storage.disk.errors import DiskFullError, StorageError, is_disk_full
from kafkapy.storage.disk.log_directory import LogDirectory
from kafkapy.storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)


class OffsetCheckpoint:
    """One checkpoint file, with offsets by partition."""

    __slots__ = ("_directory", "_lock", "_path", "_prepared", "_unsure", "_written_as", "latest", "written")

    def __init__(self, directory: LogDirectory, name: str) -> None:
        """Read the file.

        Raises:
            OSError: the disk failed.
        """
        self._directory = directory
        self._path = f"{directory.path}/{name}"
        self._lock = threading.Lock()
        self._prepared = 0
        self.latest: dict[TopicPartition, int] = {}
        """The offsets that were prepared last."""
        self._written_as = 0
        self._unsure = False
        """Whether the file may differ from `written`, because a write failed or it was damaged."""
        self.written: dict[TopicPartition, int] = {}
        """The offsets in the file."""
        try:
            self.written = read_offsets(directory.files, self._path)
        except CorruptCheckpointError as error:
            logger.warning("Going on without a checkpoint: %s", error)
            self._unsure = True
        self.latest = self.written

    def mentions_any(self, topic_partitions: Set[TopicPartition]) -> bool:
        """Whether it mentions one of many."""
        return not (
            self.written.keys().isdisjoint(topic_partitions)
            and self.latest.keys().isdisjoint(topic_partitions)
        )

    def share_names(self, names: dict[TopicPartition, TopicPartition]) -> None:
        """Use the partition objects in `names`, and add new ones there, to save memory."""
        self.written = {names.setdefault(tp, tp): offset for tp, offset in self.written.items()}

    def write(self, offsets: dict[TopicPartition, int], *, synced: bool = False) -> None:
        """Replace the content; if `synced`, it is on disk afterwards, whatever the durability.

        Raises:
            StorageError: the disk is full, or failed.
        """
        self.prepare(offsets, synced=synced)()

    def prepare(self, offsets: dict[TopicPartition, int], *, synced: bool = False) -> Callable[[], None]:
        """A function that replaces the content.

        Any thread may call it.

        It does nothing if newer content was written before. `synced` is as in `write`. It raises as `write`.
        """
        self._prepared += 1
        number, self.latest = self._prepared, offsets

        def write() -> None:
            with self._lock:
                if number > self._written_as:
                    if offsets != self.written or self._unsure:
                        self._replace(offsets, durable=synced or self._directory.durable)
                    self.written = offsets  # even if equal, since its keys are the objects of the logs
                    self._written_as = number

        return write

    def prepare_changes(self, changes: Mapping[TopicPartition, int]) -> Callable[[], None]:
        """Prepare a write of the offsets that were prepared last, with these changes."""
        return self.prepare({**self.latest, **changes})

    def _replace(self, offsets: dict[TopicPartition, int], *, durable: bool) -> None:
        directory = self._directory
        self._unsure = True
        try:
            directory.space.with_reserve(
                lambda: write_offsets(directory.files, self._path, offsets, durable=durable)
            )
        except OSError as error:
            if is_disk_full(error):
                raise DiskFullError(directory.path, f"{self._path} was not replaced: {error}") from error
            raise directory.failed(f"writing {self._path}", error) from error
        self._unsure = False


class HostedLogs(Protocol):
    """The logs of the checkpoints (log_manager.py)."""

    def all_logs(self) -> Iterator[PartitionLog]:
        """Every log, and the copies of logs that move."""

    def damaged_in(self, directory: LogDirectory) -> Iterator[TopicPartition]:
        """The partitions in a directory whose logs are damaged and not served."""


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
        self._files[directory] = {name: OffsetCheckpoint(directory, name) for name in OFFSET_CHECKPOINTS}
        return self._files[directory]

    def on_disk(self, directory: LogDirectory, name: str) -> Mapping[TopicPartition, int]:
        """The offsets in a file."""
        return self._files[directory][name].written

    def known_end(self, topic_partition: TopicPartition) -> tuple[LogDirectory | None, int]:
        """The directory of a partition, and the lowest possible log end offset that it had.

        None and 0 if no file has an offset.
        """
        found, end = None, 0
        for directory, files in self._files.items():
            for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
                offset = files[name].written.get(topic_partition, 0)
                if offset > end:
                    found, end = directory, offset
        return found, end

    def forget(self, directory: LogDirectory, topic_partition: TopicPartition) -> None:
        """Remove the offsets of a deleted log, so that a new one does not get them after a crash.

        Raises:
            StorageError: the disk is full, or failed.
        """
        for name, file in self._files[directory].items():
            if topic_partition in file.written or topic_partition in file.latest:
                directory.require_writable()
                self._prepare(directory, name)()

    def prepare_without(self, deleted: Set[TopicPartition]) -> Callable[[], None]:
        """Collect the offsets for the files that mention deleted partitions.

        Returns the function that writes them.
        """
        return _all_of(
            self._prepare(directory, name)
            for directory, files in self._files.items()
            for name, file in files.items()
            if _takes_writes(directory) and file.mentions_any(deleted)
        )

    def before_truncation(self, directory: LogDirectory) -> None:
        """Write the recovery points of a directory, before one of its logs is truncated.

        The log is truncated below its own recovery point. If a power cut took that back and not the
        truncation, the next start would take what was truncated for lost. So it is synced with durability=os
        too.
        """
        offsets = self._offsets(directory, RECOVERY_POINTS)
        self._files[directory][RECOVERY_POINTS].write(offsets, synced=True)

    def prepare(self, name: str) -> Callable[[], None]:
        """Collect the offsets for the files of this name; return the function that writes them."""
        return _all_of(
            self._prepare(directory, name) for directory in self._files if _takes_writes(directory)
        )

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
        """Have log start offsets written after the high watermarks that must be on disk first."""
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
            self._prepare_recovery_points(directory) for directory in self._files if _takes_writes(directory)
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
            if _takes_writes(directory)
        )

    def _prepare_log_starts(self, directory: LogDirectory, logs: list[PartitionLog]) -> Callable[[], None]:
        offsets = {log.topic_partition: log.log_start_offset for log in logs}
        write = self._files[directory][LOG_START_OFFSETS].prepare_changes(offsets)
        return self._after_high_watermarks(directory, logs, write)

    def save_leader_epochs(self) -> None:
        """Save the leader epochs of all logs in the calling thread, as far as possible."""
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
            # Entries are kept: a crash may bring back segments whose removal is not on disk yet.
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


def _takes_writes(directory: LogDirectory) -> bool:
    """Whether a write would neither fail nor keep its thread from the other directories."""
    return directory.error is None and directory.takes_writes()


def _all_of(writes: Iterable[Callable[[], None]]) -> Callable[[], None]:
    """The function that calls each of these functions."""
    collected = tuple(writes)

    def write() -> None:
        for each in collected:
            try:
                each()
            except StorageError as error:
                # An old checkpoint only makes the next recovery longer.
                logger.error("%s", error.message)

    return write
