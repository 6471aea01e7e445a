"""DescribeTransactions: the state of transactional ids (KIP-664).

Versions: 0.

Behaviour:

- An id that this broker does not coordinate gets NOT_COORDINATOR, and an unknown one
  TRANSACTIONAL_ID_NOT_FOUND.
- An id that is named twice is described once. Apache Kafka describes it each time.
- The partitions of a transaction are shown until all of them have their markers.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_by_topic, answer_in_steps
from kafkapy.loop.turns import Steps, counted
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from kafkapy.security.acls.model import Operation, ResourceType


def handle(
    context: RequestContext, request: DescribeTransactionsRequest
) -> Steps[DescribeTransactionsResponse]:
    """Describe each id."""
    named = yield from counted(request.transactional_ids)
    states = yield from answer_in_steps(named, lambda each: _describe(context, each))
    return DescribeTransactionsResponse(transaction_states=states)


def _describe(context: RequestContext, transactional_id: str) -> Steps[TransactionState]:
    try:
        context.require(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        found = context.broker.transactions.describe(transactional_id)
        context.charge(2 * len(found.partitions), 0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    except KafkaError as error:
        return TransactionState(transactional_id=transactional_id, error_code=error.code)
    topics = yield from answer_by_topic(
        sorted(found.partitions),
        lambda each: each if context.may(Operation.DESCRIBE, ResourceType.TOPIC, each.topic) else None,
        lambda topic, indexes: TopicData(topic=topic, partitions=indexes),
    )
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=found.state.label,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=topics,
    )
