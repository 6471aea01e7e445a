"""DeleteRecords: raise the log start offset of partitions (KIP-107).

Versions: 0-2.

Behaviour:

- The log start offset rises to the offset given; -1 means the high watermark. The records before it can no
  longer be read, and the segments that hold only such records are deleted later.
- The answer is the low watermark: the lowest log start offset of the live replicas. It comes once the
  leader's is on disk, so that no crash brings the records back. Apache Kafka writes it within a minute.
- Followers delete what their leader has deleted. The answer waits until the low watermark has reached the
  offset given; if that takes longer than the request's timeout, it is REQUEST_TIMED_OUT, with the low
  watermark as it was.
- Where it cannot be written, the answer is KAFKA_STORAGE_ERROR.
- An offset beyond the high watermark is OFFSET_OUT_OF_RANGE.
- A topic that is only compacted is POLICY_VIOLATION, since its old records may still count.
- An internal topic is INVALID_TOPIC_EXCEPTION.

Version notes:

- v2 is flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_each, visit_each, visit_partitions
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from kafkapy.protocol.topic_names import is_internal
from kafkapy.security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from kafkapy.replicas.partition import Partition

INVALID_LOW_WATERMARK = -1

Results = dict[str, dict[int, DeleteRecordsPartitionResult]]
"""By topic and partition."""


class Deletion(NamedTuple):
    """A partition whose leader has deleted records."""

    partition: Partition
    offset: int
    """Below it, all live replicas have to delete theirs."""


Deletions = dict[tuple[str, int], Deletion]
"""By topic and partition."""


async def handle(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Answer each partition on its own."""
    broker = context.broker
    deleted: Deletions = {}
    topics = await broker.turns.finish(_delete_all(context, request, deleted))
    await broker.log_starts.save([each.partition.log for each in deleted.values()])
    await _wait_for_replicas(request, topics, deleted)
    return await broker.turns.finish(_response(context, topics, deleted))


def _delete_all(context: RequestContext, request: DeleteRecordsRequest, deleted: Deletions) -> Steps[Results]:
    """Move the log start offsets; the partitions where that is done go to `deleted`."""
    wanted: dict[str, dict[int, DeleteRecordsPartition]] = {}
    topics: Results = {}

    def want_topic(topic: DeleteRecordsTopic) -> None:
        wanted[topic.name], topics[topic.name] = {}, {}

    def want(topic: DeleteRecordsTopic, partition: DeleteRecordsPartition) -> None:
        wanted[topic.name][partition.partition_index] = partition

    def delete(named: tuple[str, object], index: int) -> None:
        name, _ = named
        topics[name][index] = _delete(context, name, wanted[name][index], deleted)

    yield from visit_each(request.topics, want_topic)
    yield from visit_partitions(request.topics, lambda topic: topic.partitions, want)
    yield from visit_partitions(wanted.items(), lambda named: named[1], delete)
    return topics


def _delete(
    context: RequestContext, topic: str, wanted: DeleteRecordsPartition, deleted: Deletions
) -> DeleteRecordsPartitionResult:
    code, low_watermark = ErrorCode.NONE, INVALID_LOW_WATERMARK
    try:
        context.require(Operation.DELETE, ResourceType.TOPIC, topic)
        partition = context.broker.replicas.partition(topic, wanted.partition_index)
        if is_internal(topic):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        config = partition.log.config
        if config.is_compacted and not config.deletes:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        offset = partition.delete_records(wanted.offset)
        low_watermark = partition.low_watermark
        deleted[topic, wanted.partition_index] = Deletion(partition, offset)
    except KafkaError as error:
        code = error.code
    return DeleteRecordsPartitionResult(
        partition_index=wanted.partition_index, low_watermark=low_watermark, error_code=code
    )


async def _wait_for_replicas(request: DeleteRecordsRequest, topics: Results, deleted: Deletions) -> None:
    """Wait until all live replicas have deleted the records, and note where that fails."""
    waits = {
        (name, index): partition.watch_low_watermark(offset, request.timeout_ms / 1000)
        for (name, index), (partition, offset) in deleted.items()
        if topics[name][index].low_watermark < offset
    }
    for (name, index), wait in waits.items():
        result = topics[name][index]
        try:
            if await wait:
                result.low_watermark = deleted[name, index].partition.low_watermark
            else:
                result.error_code = ErrorCode.REQUEST_TIMED_OUT
        except KafkaError as error:
            result.error_code, result.low_watermark = error.code, INVALID_LOW_WATERMARK


def _response(context: RequestContext, topics: Results, deleted: Deletions) -> Steps[DeleteRecordsResponse]:
    """The answer; an error where a crash might bring the records back."""

    def check(name: str, index: int, deletion: Deletion) -> None:
        if not context.broker.log_starts.is_saved(deletion.partition.log):
            result = topics[name][index]
            result.error_code, result.low_watermark = ErrorCode.KAFKA_STORAGE_ERROR, INVALID_LOW_WATERMARK

    yield from visit_each(deleted.items(), lambda found: check(*found[0], found[1]))
    answers = yield from answer_each(
        topics, lambda name: DeleteRecordsTopicResult(name=name, partitions=list(topics[name].values()))
    )
    return DeleteRecordsResponse(topics=answers)
