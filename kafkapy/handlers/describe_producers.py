"""DescribeProducers: list the producers of partitions and their transactions (KIP-664).

Versions: 0.

Behaviour:

- Every replica answers for a partition, a follower too: admin clients may name the broker.
- A partition that is named twice is answered once. Apache Kafka answers it each time.
- A producer that has been idle for `producer.id.expiration.ms` is not listed, unless its transaction is open.
- A producer that has written markers only has the sequence number -1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_each, answer_in_steps, visit_each, visit_partitions
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kafkapy.protocol.topic_names import why_invalid
from kafkapy.replicas.replication import Unassigned
from kafkapy.security.acls.model import Operation, ResourceType
from kafkapy.storage.log.producers import ProducerEntry

VALUES: Final = 6
"""The values of a producer."""


def handle(context: RequestContext, request: DescribeProducersRequest) -> Steps[DescribeProducersResponse]:
    """Answer each partition on its own."""
    wanted: dict[str, dict[int, None]] = {}
    yield from visit_each(request.topics, lambda topic: wanted.setdefault(topic.name, {}))
    yield from visit_partitions(
        request.topics,
        lambda topic: topic.partition_indexes,
        lambda topic, index: wanted[topic.name].setdefault(index),
    )
    topics = yield from answer_in_steps(wanted.items(), lambda named: _describe_topic(context, *named))
    return DescribeProducersResponse(topics=topics)


def _describe_topic(context: RequestContext, topic: str, indexes: Iterable[int]) -> Steps[TopicResponse]:
    partitions = yield from answer_in_steps(indexes, lambda index: _describe(context, topic, index))
    return TopicResponse(name=topic, partitions=partitions)


def _describe(context: RequestContext, topic: str, index: int) -> Steps[PartitionResponse]:
    try:
        if (why := why_invalid(topic)) is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
        context.require(Operation.READ, ResourceType.TOPIC, topic)
        partition = context.broker.replicas.partition(topic, index)
        partition.require_online()
        if isinstance(partition.replication, Unassigned):
            partition.replication.require_leader()
        found = partition.log.producers.copy_producers()
        context.charge(VALUES * len(found), 0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    except KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    producers = yield from answer_each(found.items(), lambda known: _producer(*known))
    return PartitionResponse(partition_index=index, active_producers=producers)


def _producer(producer_id: int, entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.txn_first_offset,
    )
