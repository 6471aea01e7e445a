"""A checkpoint file of a log directory, collected on the event loop.

A worker thread writes it.

Two writes may overlap: a periodic one in a worker thread, and one that a truncation or a new log needs at
once. The newer wins: what was collected earlier is not written after it.

Crash story: the file is replaced as a unit (files.py). On a full disk it may use the space kept for the
broker; if that is gone too, the old file stays, and recovery reads more than it had to.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final

from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.disk.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CorruptCheckpointError,
    read_offsets,
    write_offsets,
)
from kafkapy.storage.disk.files import DiskFullError, is_disk_full
from kafkapy.storage.disk.log_directory import LogDirectory

logger = logging.getLogger(__name__)

CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
"""Everything below these offsets was compacted."""

CHECKPOINTS: Final = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS)


class OffsetCheckpoint:
    """The offsets by partition in one file."""

    __slots__ = ("_directory", "_latest", "_lock", "_path", "_prepared", "_unsure", "_written_as", "written")

    def __init__(self, directory: LogDirectory, name: str) -> None:
        """Read what is there.

        Raises:
            OSError: the disk failed.
        """
        self._directory = directory
        self._path = f"{directory.path}/{name}"
        self._lock = threading.Lock()
        self._prepared = 0
        self._latest: dict[TopicPartition, int] = {}
        """What was prepared last."""
        self._written_as = 0
        self._unsure = False
        """The file may hold something else.

        A write failed and may have replaced it, or it was damaged.
        """
        self.written: dict[TopicPartition, int] = {}
        """What the file holds."""
        try:
            self.written = read_offsets(directory.files, self._path)
        except CorruptCheckpointError as error:
            logger.warning("Going on without a checkpoint: %s", error)
            self._unsure = True
        self._latest = self.written

    def mentions(self, topic_partition: TopicPartition) -> bool:
        """Whether the file says anything about the partition, or is about to."""
        return topic_partition in self.written or topic_partition in self._latest

    def share_names(self, names: dict[TopicPartition, TopicPartition]) -> None:
        """Name partitions by the objects in `names`, and add new ones there.

        Thousands of copies would take memory.
        """
        self.written = {names.setdefault(tp, tp): offset for tp, offset in self.written.items()}

    def write(self, offsets: dict[TopicPartition, int]) -> None:
        """Replace the content.

        Raises:
            StorageError: the disk is full, or failed.
        """
        self.prepare(offsets)()

    def prepare(self, offsets: dict[TopicPartition, int]) -> Callable[[], None]:
        """The function that replaces the content, in any thread.

        It does nothing if something newer was written by then. It raises what `write` raises.
        """
        self._prepared += 1
        number, self._latest = self._prepared, offsets

        def write() -> None:
            with self._lock:
                if number > self._written_as:
                    if offsets != self.written or self._unsure:
                        self._replace(offsets)
                    self.written = offsets  # also if it is the same: its keys are those of the logs
                    self._written_as = number

        return write

    def prepare_changes(self, changes: Mapping[TopicPartition, int]) -> Callable[[], None]:
        """Prepare as `prepare` does, with what was prepared last and these changes."""
        return self.prepare({**self._latest, **changes})

    def _replace(self, offsets: dict[TopicPartition, int]) -> None:
        directory = self._directory
        self._unsure = True
        try:
            directory.space.with_reserve(
                lambda: write_offsets(directory.files, self._path, offsets, durable=directory.durable)
            )
        except OSError as error:
            if is_disk_full(error):
                raise DiskFullError(directory.path, f"{self._path} stays as it is: {error}") from error
            raise directory.failed(f"writing {self._path}", error) from error
        self._unsure = False
