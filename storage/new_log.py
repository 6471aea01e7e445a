"""Making the directory of a new log.

Nothing is synced here. The names, and `partition.metadata`, are on disk with the first flush of the log,
which comes before the first record counts as flushed; until then a crash may leave a part of the directory,
or nothing, and there was nothing in it.
"""

from __future__ import annotations

from kafkapy.protocol.types import ZERO_UUID, TopicPartition, Uuid
from kafkapy.storage.checkpoints import PARTITION_METADATA, write_partition_metadata
from kafkapy.storage.epochs import LeaderEpochCache
from kafkapy.storage.log import PartitionLog
from kafkapy.storage.log_config import LogConfig
from kafkapy.storage.log_directory import LogDirectory
from kafkapy.storage.producer_snapshots import ProducerSnapshots
from kafkapy.storage.producers import ProducerStates
from kafkapy.storage.segment import SUFFIXES, Segment, segment_stem
from kafkapy.storage.segments import Segments


def create_log(
    log_directory: LogDirectory,
    path: str,
    topic_partition: TopicPartition,
    topic_id: Uuid,
    config: LogConfig,
    *,
    producer_expiration_ms: int,
) -> PartitionLog:
    """An empty log in the new directory `path`.

    Raises:
        OSError: nothing is left of it.
    """
    files = log_directory.files
    files.make_directory(path)
    try:
        segment = Segment.create(files, path, 0, config, log_directory.clock.now_ms(), fresh_directory=True)
        log = PartitionLog(
            topic_partition,
            path,
            topic_id=None,
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
        if topic_id != ZERO_UUID:
            adopt_topic_id(log, topic_id)
    except (OSError, MemoryError):
        # By their names: it takes a descriptor to list a directory, and there may be none.
        for suffix in SUFFIXES:
            files.unlink(segment_stem(path, 0) + suffix)
        files.unlink(f"{path}/{PARTITION_METADATA}")
        files.remove(path)
        raise
    return log


def adopt_topic_id(log: PartitionLog, topic_id: Uuid) -> None:
    """Record the topic id of a log that has none.

    Raises:
        OSError: the disk failed.
    """
    path = f"{log.path}/{PARTITION_METADATA}"
    write_partition_metadata(log.log_directory.files, path, topic_id, durable=False)
    log.topic_id = topic_id
    log.unsynced.paths += (path,)
    log.unsynced.directories[log.path] = None


def rotted(found: Uuid, known: Uuid) -> bool:
    """Whether a topic id on disk is the known one with a byte or two damaged: no two topics are so close."""
    return 0 < sum(one != other for one, other in zip(found, known, strict=True)) <= 2
