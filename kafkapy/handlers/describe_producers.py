"""DescribeProducers: list the producers of partitions and their transactions (KIP-664).

Versions: 0.

Behaviour:

- Every replica answers for a partition, a follower too: admin clients may name the broker.
- A partition that is named twice is answered once. Apache Kafka answers it each time.
- A producer that has been idle for `producer.id.expiration.ms` is not listed, unless its transaction is open.
- A producer that has written markers only has the sequence number -1.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
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


def handle(context: RequestContext, request: DescribeProducersRequest) -> Steps[DescribeProducersResponse]:
    """Answer each partition on its own."""
    response = DescribeProducersResponse()
    topics: dict[str, TopicResponse] = {}
    answered: set[tuple[str, int]] = set()
    for topic in request.topics:
        yield
        if topic.name not in topics:
            topics[topic.name] = TopicResponse(name=topic.name)
            response.topics.append(topics[topic.name])
        found = topics[topic.name]
        for index in topic.partition_indexes:
            yield
            if (topic.name, index) in answered:
                continue
            answered.add((topic.name, index))
            answer = PartitionResponse(partition_index=index)
            found.partitions.append(answer)
            try:
                yield from _describe(context, topic.name, answer)
            except KafkaError as error:
                answer.error_code, answer.error_message = error.code, error.message
    return response


def _describe(context: RequestContext, topic: str, answer: PartitionResponse) -> Steps[None]:
    if (why := why_invalid(topic)) is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
    partition = context.broker.replicas.partition(topic, answer.partition_index)
    partition.require_online()
    if isinstance(partition.replication, Unassigned):
        partition.replication.require_leader()
    for producer_id, entry in partition.log.producers.copy_producers().items():
        yield
        answer.active_producers.append(
            ProducerState(
                producer_id=producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.txn_first_offset,
            )
        )
