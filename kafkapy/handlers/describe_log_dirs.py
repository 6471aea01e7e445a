"""DescribeLogDirs: show the log directories, their partitions and their sizes (KIP-113).

Versions: 0-5 (Apache Kafka 4 dropped v0).

Behaviour:

- Null topics ask for all partitions. Otherwise the partitions named are shown where they exist.
- A directory that has failed is named with KAFKA_STORAGE_ERROR and no partitions.
- The copy of a partition that is moving (AlterReplicaLogDirs) is a future key. Its offset lag is what it
  still has to copy, or -1 where the partition itself is offline. The offset lag of a partition itself is 0.

Version notes:

- v3 adds an error for the complete answer.
- v4 adds the size and free space of the directory's disk (KIP-827).
- v5 adds whether the directory is cordoned, which it never is.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import visit_each, visit_partitions
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kafkapy.protocol.types import TopicPartition
from kafkapy.replicas.partition import Partition
from kafkapy.storage.disk.log_directory import LogDirectory
from kafkapy.storage.log.partition_log import PartitionLog

UNKNOWN_LAG = -1

ByDirectory = dict[str, dict[str, list[DescribeLogDirsPartition]]]
"""Partitions by path of a log directory, and by topic."""

Wanted = dict[str, set[int]]
"""The partitions that a client names, by topic."""


async def handle(context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Describe every log directory."""
    by_dir = await context.broker.turns.finish(_by_directory(context, request))
    return DescribeLogDirsResponse(
        results=[
            await _describe(context, directory, by_dir.get(directory.path, {}))
            for directory in context.broker.logs.directories
        ]
    )


def _by_directory(context: RequestContext, request: DescribeLogDirsRequest) -> Steps[ByDirectory]:
    wanted: Wanted | None = None
    if request.topics is not None:
        named: Wanted = {}
        wanted = named
        yield from visit_partitions(
            request.topics,
            lambda topic: topic.partitions,
            lambda topic, index: named.setdefault(topic.topic, set()).add(index),
        )
    by_directory: ByDirectory = {}

    def add(directory: LogDirectory, topic: str, described: DescribeLogDirsPartition) -> None:
        by_directory.setdefault(directory.path, {}).setdefault(topic, []).append(described)

    def describe(partition: Partition) -> None:
        topic, index = partition.topic_partition
        if wanted is None or index in wanted.get(topic, ()):
            described = DescribeLogDirsPartition(partition_index=index, partition_size=partition.log.size)
            add(partition.log.log_directory, topic, described)

    logs = context.broker.logs

    def describe_copy(topic_partition: TopicPartition, copy: PartitionLog) -> None:
        topic, index = topic_partition
        if wanted is None or index in wanted.get(topic, ()):
            log = logs.logs.get(topic_partition)
            described = DescribeLogDirsPartition(
                partition_index=index,
                partition_size=copy.size,
                offset_lag=UNKNOWN_LAG if log is None else log.log_end_offset - copy.log_end_offset,
                is_future_key=True,
            )
            add(copy.log_directory, topic, described)

    yield from visit_each(tuple(context.broker.replicas), describe)
    yield from visit_each(tuple(logs.moves.copies.items()), lambda moving: describe_copy(*moving))
    return by_directory


async def _describe(
    context: RequestContext, directory: LogDirectory, topics: dict[str, list[DescribeLogDirsPartition]]
) -> DescribeLogDirsResult:
    path, files = directory.path, directory.files
    failed = DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
    if directory.error is not None:
        return failed
    try:
        total_bytes = await context.broker.blocking(files.total_bytes, path)
        usable_bytes = await context.broker.blocking(files.free_bytes, path)
    except OSError:
        return failed
    return DescribeLogDirsResult(
        log_dir=path,
        topics=[DescribeLogDirsTopic(name=name, partitions=found) for name, found in topics.items()],
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )
