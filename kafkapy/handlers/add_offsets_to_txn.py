"""AddOffsetsToTxn: add a group's partition of `__consumer_offsets` to a transaction.

Versions: 0-4.

Behaviour:

- It is AddPartitionsToTxn for that partition. Clients whose brokers add partitions by themselves (KIP-890)
  do not send it.
- The offsets topic is created if it is missing.

Version notes:

- v2 says PRODUCER_FENCED; before, it is INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from kafkapy.coordination.answer import Answer
from kafkapy.coordination.partitioning import partition_of
from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafkapy.protocol.topic_names import GROUP_METADATA_TOPIC
from kafkapy.protocol.types import TopicPartition
from kafkapy.transactions.state_machine import Producer

FIRST_VERSION_WITH_FENCED: Final = 2
CLIENT_VERSION: Final = 0
"""The transaction version of every client that sends this request."""


def handle(
    context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    """Add the partition of the group."""
    if GROUP_METADATA_TOPIC not in context.broker.metadata.image.topics:
        return _create_topic_and_add(context, request)
    return _add(context, request)


async def _create_topic_and_add(
    context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    try:
        await context.broker.automatic_topics.ensure_internal_topic(GROUP_METADATA_TOPIC)
    except KafkaError:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    answer = _add(context, request)
    return answer if isinstance(answer, AddOffsetsToTxnResponse) else await answer


def _add(
    context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    topic = context.broker.metadata.image.topics[GROUP_METADATA_TOPIC]
    index = partition_of(request.group_id, len(topic.partitions))
    answer: Answer[AddOffsetsToTxnResponse] = Answer()

    def done(error: ErrorCode) -> None:
        if error is ErrorCode.PRODUCER_FENCED and context.api_version < FIRST_VERSION_WITH_FENCED:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        answer(AddOffsetsToTxnResponse(error_code=error))

    context.broker.transactions.add_partitions(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        [TopicPartition(GROUP_METADATA_TOPIC, index)],
        CLIENT_VERSION,
        done,
    )
    return answer.result()
