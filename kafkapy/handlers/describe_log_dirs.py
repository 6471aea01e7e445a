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

from collections.abc import Iterator
from itertools import chain

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import visit_partitions
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kafkapy.storage.disk.log_directory import LogDirectory

UNKNOWN_LAG = -1

ByDirectory = dict[str, dict[str, list[DescribeLogDirsPartition]]]
"""Partitions by path of a log directory, and by topic."""

Wanted = dict[str, set[int]]
"""The partitions that a client names, by topic."""

Described = tuple[str, str, DescribeLogDirsPartition]
"""Path of a log directory, name of a topic, and one of its partitions in there."""


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
    for each in chain(_logs(context, wanted), _copies(context, wanted)):
        yield
        path, name, described = each
        by_directory.setdefault(path, {}).setdefault(name, []).append(described)
    return by_directory


def _logs(context: RequestContext, wanted: Wanted | None) -> Iterator[Described]:
    for partition in tuple(context.broker.replicas):
        name, index = partition.topic_partition
        if wanted is None or index in wanted.get(name, ()):
            described = DescribeLogDirsPartition(partition_index=index, partition_size=partition.log.size)
            yield partition.log.log_directory.path, name, described


def _copies(context: RequestContext, wanted: Wanted | None) -> Iterator[Described]:
    logs = context.broker.logs
    for topic_partition, copy in tuple(logs.moves.copies.items()):
        if wanted is None or topic_partition.partition in wanted.get(topic_partition.topic, ()):
            log = logs.logs.get(topic_partition)
            described = DescribeLogDirsPartition(
                partition_index=topic_partition.partition,
                partition_size=copy.size,
                offset_lag=UNKNOWN_LAG if log is None else log.log_end_offset - copy.log_end_offset,
                is_future_key=True,
            )
            yield copy.log_directory.path, topic_partition.topic, described


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
