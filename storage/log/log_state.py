"""The state of a partition's log, on disk and in memory, that the parts of the log share.

The parts change it (append.py, truncation.py, retention.py, a compaction). Other code uses PartitionLog.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol, TypeVar

from kafkapy.protocol.compression import DecompressedSizeError
from kafkapy.protocol.errors import DecodeError, ErrorCode, KafkaError
from kafkapy.protocol.topic_names import is_internal
from kafkapy.protocol.types import TopicPartition, Uuid
from kafkapy.storage.disk.errors import DiskFullError, is_disk_full
from kafkapy.storage.disk.log_directory import LogDirectory
from kafkapy.storage.log.batches import BadBatchError
from kafkapy.storage.log.epochs import LeaderEpochCache
from kafkapy.storage.log.flush import FlushTicket, UnsyncedFiles
from kafkapy.storage.log.index_file import CorruptIndexError
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.log_reader import LogReader
from kafkapy.storage.log.producer_snapshots import ProducerSnapshots
from kafkapy.storage.log.producers import ProducerStates
from kafkapy.storage.log.segments import Segments
from kafkapy.storage.log.txn_index import CorruptTransactionIndexError

logger = logging.getLogger(__name__)

DAMAGE = (BadBatchError, CorruptIndexError, CorruptTransactionIndexError, DecodeError)
"""The errors that reading a damaged file raises."""

T = TypeVar("T")


class FilesToMake(Protocol):
    """The files of a new log (new_log.py)."""

    is_settled: bool
    """Whether the files are created, or given up."""

    def make(self) -> None:
        """Create the files, unless they are created already or given up."""

    def give_up(self) -> bool:
        """Keep the files from being created; return False if they are created already."""


class Cleaning(Protocol):
    """A compaction that is under way."""

    def abort(self) -> None:
        """End the compaction without effect."""


class LogState:
    """The state that the parts of a log share and change."""

    __slots__ = (
        "abandoned",
        "cleaned_offset",
        "cleaning",
        "config",
        "flushed_offset",
        "generation",
        "high_watermark",
        "last_flush_ms",
        "leader_epochs",
        "log_directory",
        "log_end_offset",
        "log_start_offset",
        "new_files",
        "path",
        "privileged",
        "producers",
        "reader",
        "segments",
        "snapshots",
        "ticket",
        "topic_id",
        "topic_partition",
        "truncated",
        "unfinished_truncation",
        "unsynced",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        path: str,
        *,
        topic_id: Uuid | None,
        config: LogConfig,
        log_directory: LogDirectory,
        segments: Segments,
        leader_epochs: LeaderEpochCache,
        producers: ProducerStates,
        snapshots: ProducerSnapshots,
        log_start_offset: int,
        log_end_offset: int,
        flushed_offset: int,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.path = path
        self.config = config
        """It may be replaced at any time. The next append or retention run uses the new settings."""
        self.log_directory = log_directory
        self.segments = segments
        self.leader_epochs = leader_epochs
        self.producers = producers
        self.snapshots = snapshots
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.flushed_offset = flushed_offset
        self.high_watermark = log_start_offset
        self.last_flush_ms = log_directory.clock.now_ms()
        self.privileged = is_internal(topic_partition.topic)
        """Whether its records are written even below the free-space limit."""
        self.reader = LogReader(segments, leader_epochs)
        self.unsynced = UnsyncedFiles()
        self.new_files: FilesToMake | None = None
        """The files of a new log, until they are created (new_log.py)."""
        self.generation = 0
        """The number of truncations.

        If it rises during a flush, the flushed offset stays: offsets may have been truncated and rewritten.
        """
        self.cleaned_offset: int | None = None
        """The offset below which the log was compacted; None if it never was."""
        self.cleaning: Cleaning | None = None
        """The compaction that is under way."""
        self.ticket: FlushTicket | None = None
        """The flush that is under way."""
        self.truncated: Callable[[], None] | None = None
        """Called after a truncation: a reader that meets damage may cause one."""
        self.unfinished_truncation: Callable[[], None] | None = None
        """Completes a truncation that stopped half-way, because the process lacked something."""
        self.abandoned = False
        """Whether the partition was deleted. Its files may be gone, and nothing has to be kept."""

    @property
    def size(self) -> int:
        """Bytes of record batches in all segments."""
        return self.segments.size

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the earliest open transaction, at most the high watermark."""
        return max(min(self.producers.first_unstable_offset, self.high_watermark), self.log_start_offset)

    def make_files(self) -> None:
        """Create the files of the log if they do not exist yet.

        Raises:
            StorageError: something else has the directory's name.
            OSError: the disk failed, or is full.
        """
        if self.new_files is not None:
            self.new_files.make()
            self.new_files = None

    def advance_high_watermark(self, offset: int) -> None:
        """Raise the high watermark to `offset`, at most to the log end offset.

        It never falls.
        """
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.producers.high_watermark_moved(offset)

    def advance_log_start_offset(self, offset: int) -> bool:
        """Raise the log start offset to `offset`; return whether it moved.

        The next retention run deletes the segments below it.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, `offset` is above the high watermark.
        """
        if offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"The log cannot start at {offset}, above the high watermark {self.high_watermark}.",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.leader_epochs.truncate_from_start(offset)
        self.producers.log_start_moved(offset)
        return True

    # --- errors ---------------------------------------------------------------------------------------------

    def guarded(self, what: str, call: Callable[[], T]) -> T:
        """Run `call`, and translate its errors with `translated`."""
        self.log_directory.require_online()
        try:
            return call()
        except (OSError, MemoryError, *DAMAGE) as error:
            raise self.translated(what, error) from error

    def translated(self, what: str, error: Exception) -> KafkaError:
        """The KafkaError or StorageError for an error.

        An error of the disk takes the log directory offline, unless the disk is only full, or the process has
        reached a limit.
        """
        log_directory = self.log_directory
        if isinstance(error, (OSError, MemoryError)):
            if is_disk_full(error):
                return DiskFullError(log_directory.path, f"{what} {self.path}: {error}")
            return log_directory.failed(f"{what} {self.path}", error)
        logger.error("%s is damaged: %s: %s", self.path, what, error)
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.topic_partition} is damaged: {error}")

    def search_failed(self, error: Exception) -> Exception:
        """The error to raise after `error` ended a search."""
        if isinstance(error, DecompressedSizeError):
            return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"{self.topic_partition}: {error}")
        if isinstance(error, (OSError, MemoryError, *DAMAGE)):
            return self.translated("searching", error)
        return error
