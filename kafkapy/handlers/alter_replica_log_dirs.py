"""AlterReplicaLogDirs: move partitions to other log directories of this broker (KIP-113).

Versions: 0-2 (Apache Kafka 4 dropped v0).

Behaviour:

- The answer comes when the move has begun. DescribeLogDirs shows how far it is.
- A partition that is moving to another directory is sent to the new one instead. A partition that is told
  to stay where it is stays.
- A name that leaves no room for the suffix of a copy is INVALID_TOPIC_EXCEPTION.
- A path that is not one of this broker's log directories is LOG_DIR_NOT_FOUND.
- A directory that is offline is KAFKA_STORAGE_ERROR. Where a copy has to be made, so is any log directory
  that is offline: it may hold an earlier copy.
- A partition that does not exist (yet) is UNKNOWN_TOPIC_OR_PARTITION. If it is created later, it is made in
  that directory.
- Where a partition is named twice, the last directory counts.

Version notes:

- v2 is flexible.
"""

from __future__ import annotations

import asyncio

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_each, answer_in_steps, visit_partitions
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
    AlterReplicaLogDirTopicResult,
)
from kafkapy.protocol.topic_names import is_valid
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.disk.directory_names import future_name


async def handle(context: RequestContext, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    """Start one move after the other."""
    wanted = await context.broker.turns.finish(_wanted(request))
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for topic_partition, path in wanted.items():
        await asyncio.sleep(0)  # there may be thousands
        code = ErrorCode.NONE
        try:
            await _move(context, topic_partition, path)
        except KafkaError as error:
            code = error.code
        results.setdefault(topic_partition.topic, []).append(
            AlterReplicaLogDirPartitionResult(partition_index=topic_partition.partition, error_code=code)
        )
    answers = answer_each(
        results.items(),
        lambda found: AlterReplicaLogDirTopicResult(topic_name=found[0], partitions=found[1]),
    )
    return AlterReplicaLogDirsResponse(results=await context.broker.turns.finish(answers))


def _wanted(request: AlterReplicaLogDirsRequest) -> Steps[dict[TopicPartition, str]]:
    wanted: dict[TopicPartition, str] = {}

    def want_all(directory: AlterReplicaLogDir) -> Steps[None]:
        def want(topic: AlterReplicaLogDirTopic, index: int) -> None:
            wanted[TopicPartition(topic.name, index)] = directory.path

        return visit_partitions(directory.topics, lambda topic: topic.partitions, want)

    yield from answer_in_steps(request.dirs, want_all)
    return wanted


async def _move(context: RequestContext, topic_partition: TopicPartition, path: str) -> None:
    broker = context.broker
    if future_name(topic_partition) is None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    directory = next((each for each in broker.logs.directories if each.path == path), None)
    if directory is None:
        raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND)
    directory.require_online()
    try:
        partition = broker.replicas.partition(*topic_partition)
    except KafkaError as error:
        if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and is_valid(topic_partition.topic):
            broker.logs.prefer(topic_partition, directory)
        raise
    await broker.log_mover.move(partition, directory)
