"""New logs and their files.

    <topic>-<partition>/
        00000000000000000000.log    empty
        partition.metadata          the topic id

A new log exists only in memory at first, and can be read at once. Its files are created by a thread in the
background, or by the first append if that comes first. Creating the files is the main cost of a new
partition, up to a millisecond each if the file system has just freed many. So CreateTopics is answered as
soon as the topic is in the metadata, as in Apache Kafka.

Nothing is synced here. The first flush of the log syncs the names and `partition.metadata`, before any record
counts as flushed.

Crash story: a crash may leave all of the directory, a part of it, or nothing. It has no records. The next
start creates the missing files for the topics in the metadata.

Source: LogManager.getOrCreateLog; BrokerMetadataPublisher, which makes logs after the metadata is published.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence

from kafkapy.protocol.types import ZERO_UUID, TopicPartition, Uuid
from kafkapy.storage.disk.checkpoints import PARTITION_METADATA, write_partition_metadata
from kafkapy.storage.disk.errors import StorageError, is_disk_full, is_exhausted
from kafkapy.storage.disk.file_names import LOG_SUFFIX, path_stem
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.disk.log_directory import LogDirectory
from kafkapy.storage.log.epochs import LeaderEpochCache
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.storage.log.producer_snapshots import ProducerSnapshots
from kafkapy.storage.log.producers import ProducerStates
from kafkapy.storage.log.segment import Segment
from kafkapy.storage.log.segments import Segments

logger = logging.getLogger(__name__)


def create_log(
    log_directory: LogDirectory,
    path: str,
    topic_partition: TopicPartition,
    topic_id: Uuid,
    config: LogConfig,
    *,
    producer_expiration_ms: int,
) -> PartitionLog:
    """An empty log for the new directory `path`.

    No file is created yet.
    """
    files, now_ms = log_directory.files, log_directory.clock.now_ms()
    segment = Segment(files, path, 0, config, size=0, now_ms=now_ms, new=True)
    segment.dirty = config.preallocate
    log = PartitionLog(
        topic_partition,
        path,
        topic_id=None if topic_id == ZERO_UUID else topic_id,
        config=config,
        log_directory=log_directory,
        segments=Segments([segment]),
        leader_epochs=LeaderEpochCache(),
        producers=ProducerStates(expiration_ms=producer_expiration_ms),
        snapshots=ProducerSnapshots(files, path),
        log_start_offset=0,
        log_end_offset=0,
        flushed_offset=0,
    )
    log.unsynced.directories = dict.fromkeys((log_directory.path, path))
    if log.topic_id is not None:
        log.unsynced.paths = (f"{path}/{PARTITION_METADATA}",)
    log.new_files = NewLogFiles(files, path, topic_id, config.segment_bytes if config.preallocate else 0)
    return log


class NewLogFiles:
    """The files of a new log.

    Any thread may create them or give them up.
    """

    __slots__ = ("_files", "_lock", "_path", "_size", "_topic_id", "is_settled")

    def __init__(self, files: FileSystem, path: str, topic_id: Uuid, size: int) -> None:
        self._files = files
        self._path = path
        self._topic_id = topic_id
        self._size = size
        """The size to which the `.log` file is preallocated, as a hole."""
        self._lock = threading.Lock()
        self.is_settled = False
        """Whether the files are created, or given up."""

    def make(self) -> None:
        """Create the files, unless they are created already or given up.

        Raises:
            StorageError: something else has the directory's name.
            OSError, MemoryError: the disk failed, or space or memory is lacking. No file is left.
        """
        with self._lock:
            if not self.is_settled:
                try:
                    self._files.make_directory(self._path)
                except FileExistsError as error:
                    raise StorageError(
                        os.path.dirname(self._path), f"{self._path} is in the way: remove it"
                    ) from error
                try:
                    self._fill()
                except (OSError, MemoryError):
                    # The files are removed by name: listing the directory would take a descriptor.
                    for path in (self._log_file, self._metadata_file):
                        self._files.unlink(path)
                    self._files.remove(self._path)
                    raise
                self.is_settled = True

    @property
    def _log_file(self) -> str:
        return path_stem(self._path, 0) + LOG_SUFFIX

    @property
    def _metadata_file(self) -> str:
        return f"{self._path}/{PARTITION_METADATA}"

    def _fill(self) -> None:
        files = self._files
        files.create(self._log_file)
        if self._size:
            file = files.open(self._log_file)
            try:
                files.truncate(file, self._size)
            finally:
                file.release()
        if self._topic_id != ZERO_UUID:
            write_partition_metadata(files, self._metadata_file, self._topic_id, durable=False)

    def give_up(self) -> bool:
        """Keep the files from being created; return False if they are created already."""
        with self._lock:
            given_up = not self.is_settled
            self.is_settled = True
        return given_up


def make_files(logs: Sequence[PartitionLog]) -> tuple[Sequence[PartitionLog], Exception | None]:
    """Create the files of new logs, until space, descriptors or memory are lacking.

    Any thread may call this. A log directory whose disk fails goes offline.

    Returns the logs before the first that failed for such a lack, and its error, or all logs and None.
    """
    for count, log in enumerate(logs):
        files, directory = log.new_files, log.log_directory
        if files is None or directory.error is not None:
            continue
        try:
            files.make()
        except StorageError as error:
            logger.error("%s has no files: %s", log.topic_partition, error.message)
        except (OSError, MemoryError) as error:
            if is_exhausted(error) or is_disk_full(error):
                return logs[:count], error
            directory.failed(f"creating {log.path}", error)
    return logs, None


def adopt_topic_id(log: PartitionLog, topic_id: Uuid) -> None:
    """Record the topic id of a log that has none.

    Raises:
        OSError: the disk failed.
    """
    log.make_files()
    path = f"{log.path}/{PARTITION_METADATA}"
    write_partition_metadata(log.log_directory.files, path, topic_id, durable=False)
    log.topic_id = topic_id
    log.unsynced.paths += (path,)
    log.unsynced.directories[log.path] = None


def is_damaged_id(found: Uuid, known: Uuid) -> bool:
    """Whether a topic id on disk is the known one with one or two damaged bytes.

    The ids of two topics are never so similar, as they are random.
    """
    return 0 < sum(one != other for one, other in zip(found, known, strict=True)) <= 2
