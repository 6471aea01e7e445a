"""DeleteRecords: let a partition start later (KIP-107).

Versions: 0-2.

Behaviour: the log start offset moves up to the offset given, -1 being the high watermark; the records
before it can no longer be read, and the segments that hold only such records are deleted later. The answer
is the new low watermark. Beyond the high watermark is OFFSET_OUT_OF_RANGE; a topic that is only compacted
is POLICY_VIOLATION, since its old records may still count; an internal topic is INVALID_TOPIC_EXCEPTION.

Version notes: v2 is flexible.
"""

from __future__ import annotations

from kafkapy.context import RequestContext
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kafkapy.topic_names import is_internal
from kafkapy.turns import Steps

INVALID_LOW_WATERMARK = -1


def handle(context: RequestContext, request: DeleteRecordsRequest) -> Steps[DeleteRecordsResponse]:
    """Answer each partition on its own."""
    wanted: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in request.topics:
        of_topic = wanted.setdefault(topic.name, {})
        for partition in topic.partitions:
            yield
            of_topic[partition.partition_index] = partition
    topics: dict[str, dict[int, DeleteRecordsPartitionResult]] = {}
    for name, of_topic in wanted.items():
        topics[name] = {}
        for index, partition in of_topic.items():
            yield
            topics[name][index] = _delete(context, name, partition)
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name=name, partitions=list(partitions.values()))
            for name, partitions in topics.items()
        ]
    )


def _delete(
    context: RequestContext, topic: str, wanted: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    code, low_watermark = ErrorCode.NONE, INVALID_LOW_WATERMARK
    try:
        partition = context.broker.replicas.partition(topic, wanted.partition_index)
        if is_internal(topic):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        config = partition.log.config
        if config.is_compacted and not config.deletes:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        low_watermark = partition.delete_records(wanted.offset)
    except KafkaError as error:
        code = error.code
    return DeleteRecordsPartitionResult(
        partition_index=wanted.partition_index, low_watermark=low_watermark, error_code=code
    )
