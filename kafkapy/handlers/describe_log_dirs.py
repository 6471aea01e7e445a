"""DescribeLogDirs: the data directories, the partitions in them and their sizes (KIP-113).

Versions: 0-5 (Apache Kafka 4 dropped v0).

Behaviour: null topics asks for all partitions, otherwise those named are shown where they exist. A
directory that has failed is named with KAFKA_STORAGE_ERROR. A leader's offset lag is 0.

Version notes: v3 adds an error for the whole answer, v4 the size and free space of the directory's disk
(KIP-827), v5 whether it is cordoned, which it never is.
"""

from __future__ import annotations

import os
from pathlib import Path

from kafkapy.context import RequestContext
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


async def handle(context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Describe every data directory."""
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, partition) for topic in request.topics for partition in topic.partitions}
    by_dir: dict[Path, dict[str, list[DescribeLogDirsPartition]]] = {}
    for partition in context.broker.replicas:
        name, index = partition.topic_partition
        if wanted is None or (name, index) in wanted:
            topics = by_dir.setdefault(partition.log.directory.parent, {})
            topics.setdefault(name, []).append(
                DescribeLogDirsPartition(partition_index=index, partition_size=partition.log.size)
            )
    results = []
    for log_dir in context.broker.logs.directories:
        directory = Path(log_dir.path)
        if log_dir.error is not None:
            results.append(_failed(directory))
            continue
        try:
            disk = await context.broker.blocking(os.statvfs, directory)
        except OSError:
            results.append(_failed(directory))
            continue
        results.append(
            DescribeLogDirsResult(
                log_dir=str(directory),
                topics=[
                    DescribeLogDirsTopic(name=name, partitions=partitions)
                    for name, partitions in by_dir.get(directory, {}).items()
                ],
                total_bytes=disk.f_blocks * disk.f_frsize,
                usable_bytes=disk.f_bavail * disk.f_frsize,
            )
        )
    return DescribeLogDirsResponse(results=results)


def _failed(directory: Path) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=str(directory))
