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
from kafkapy.loop.turns import Steps, counted
from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def handle(
    context: RequestContext, request: DescribeTransactionsRequest
) -> Steps[DescribeTransactionsResponse]:
    """Describe each id."""
    response = DescribeTransactionsResponse()
    for transactional_id in (yield from counted(request.transactional_ids)):
        yield
        state = TransactionState(transactional_id=transactional_id)
        response.transaction_states.append(state)
        try:
            found = context.broker.transactions.describe(transactional_id)
        except KafkaError as error:
            state.error_code = error.code
            continue
        state.transaction_state = found.state.label
        state.transaction_timeout_ms = found.timeout_ms
        state.transaction_start_time_ms = found.start_ms
        state.producer_id, state.producer_epoch = found.producer_id, found.producer_epoch
        by_topic: dict[str, TopicData] = {}
        for topic, index in sorted(found.partitions):
            yield
            by_topic.setdefault(topic, TopicData(topic=topic)).partitions.append(index)
        state.topics = list(by_topic.values())
    return response
