"""AddPartitionsToTxn: add partitions to a transaction before records are written to them.

Versions: 0-5.

Behaviour:

- If one of the partitions does not exist (UNKNOWN_TOPIC_OR_PARTITION), none is added; the others get
  OPERATION_NOT_ATTEMPTED. The same holds if a client names one of an internal topic
  (TOPIC_AUTHORIZATION_FAILED): offsets enter a transaction by AddOffsetsToTxn.
- While the last transaction is ending, the answer is CONCURRENT_TRANSACTIONS, and the client asks again.
- A producer with another epoch than the last one gets PRODUCER_FENCED.
- Brokers ask for many transactions at once (v4+). With `verify_only`, nothing is added: a partition that is
  not in the transaction gets TRANSACTION_ABORTABLE. A leader on another broker asks so before a
  transaction's first records.

Version notes:

- v2 says PRODUCER_FENCED; before, it is INVALID_PRODUCER_EPOCH.
- v4 is for brokers, and has a list of transactions. They may name internal topics.
- v5 comes from a leader whose client leaves it to the brokers to add partitions (KIP-890).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

from kafkapy.coordination.answer import Answer, Join
from kafkapy.handlers.context import BrokerParts, RequestContext
from kafkapy.handlers.per_partition import answer_in_steps, answer_partitions, visit_partitions
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kafkapy.protocol.topic_names import is_internal
from kafkapy.protocol.types import TopicPartition
from kafkapy.security.acls.model import Operation, ResourceType
from kafkapy.transactions.metadata import EPOCH_AT_EACH_END
from kafkapy.transactions.state_machine import Producer

FIRST_VERSION_WITH_FENCED: Final = 2
FIRST_VERSION_OF_BROKERS: Final = 4
FIRST_VERSION_WITH_EPOCHS: Final = 5


def handle(
    context: RequestContext, request: AddPartitionsToTxnRequest
) -> Steps[AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]]:
    """Add the partitions to each transaction."""
    answer: Answer[AddPartitionsToTxnResponse] = Answer()
    version = context.api_version
    if version >= FIRST_VERSION_OF_BROKERS:

        def all_done(results: list[AddPartitionsToTxnResult]) -> None:
            answer(AddPartitionsToTxnResponse(results_by_transaction=results))

        yield from _add_all(context, request.transactions, version, all_done)
        return answer.result()

    def done(results: list[AddPartitionsToTxnResult]) -> None:
        topics = results[0].topic_results
        if version < FIRST_VERSION_WITH_FENCED:
            _rename_fenced(topics)
        answer(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics))

    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    yield from _add_all(context, [transaction], version, done)
    return answer.result()


def _add_all(
    context: RequestContext,
    transactions: Sequence[AddPartitionsToTxnTransaction],
    api_version: int,
    done: Callable[[list[AddPartitionsToTxnResult]], None],
) -> Steps[None]:
    """Add partitions, or verify them; `done` is called once with the results."""
    results: list[AddPartitionsToTxnResult] = []
    join = Join(lambda: done(results))
    results = yield from answer_in_steps(
        transactions, lambda transaction: _add(context, transaction, api_version, join)
    )
    join.close()


def _add(
    context: RequestContext, transaction: AddPartitionsToTxnTransaction, api_version: int, join: Join
) -> Steps[AddPartitionsToTxnResult]:
    """Add the partitions of one transaction, or verify them.

    `join` waits until the result is complete.
    """
    broker = context.broker
    image, from_client = broker.metadata.image, api_version < FIRST_VERSION_OF_BROKERS
    partitions: set[TopicPartition] = set()
    is_refused = False

    def check(topic: AddPartitionsToTxnTopic, index: int) -> AddPartitionsToTxnPartitionResult:
        nonlocal is_refused
        error = ErrorCode.NONE
        if from_client and (
            is_internal(topic.name) or not context.may(Operation.WRITE, ResourceType.TOPIC, topic.name)
        ):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif image.partition(topic.name, index) is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            partitions.add(TopicPartition(topic.name, index))
        is_refused |= bool(error)
        return AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)

    topics = yield from answer_partitions(
        transaction.topics,
        lambda topic: topic.partitions,
        check,
        lambda topic, answers: AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=answers),
    )
    result = AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=topics)
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    if is_refused:
        yield from _set_errors(result, ErrorCode.OPERATION_NOT_ATTEMPTED)
    elif transaction.verify_only:
        yield from _verify(broker, transaction, producer, result)
    else:

        def added(error: ErrorCode) -> None:
            if error:
                for topic in topics:
                    for each in topic.results_by_partition:
                        each.partition_error_code = error
            join.end()

        join.begin()
        version = EPOCH_AT_EACH_END if api_version >= FIRST_VERSION_WITH_EPOCHS else 0
        broker.transactions.add_partitions(transaction.transactional_id, producer, partitions, version, added)
    return result


def _verify(
    broker: BrokerParts,
    transaction: AddPartitionsToTxnTransaction,
    producer: Producer,
    result: AddPartitionsToTxnResult,
) -> Steps[None]:
    try:
        partitions = broker.transactions.verify(transaction.transactional_id, producer)
    except KafkaError as error:
        yield from _set_errors(result, error.code)
    else:
        yield from _set_errors(result, ErrorCode.TRANSACTION_ABORTABLE, partitions)


def _set_errors(
    result: AddPartitionsToTxnResult, error: ErrorCode, but: Collection[TopicPartition] = ()
) -> Steps[None]:
    """Set the error of all partitions that have none yet, except for some."""

    def set_error(topic: AddPartitionsToTxnTopicResult, each: AddPartitionsToTxnPartitionResult) -> None:
        if not each.partition_error_code and (topic.name, each.partition_index) not in but:
            each.partition_error_code = error

    return visit_partitions(result.topic_results, lambda topic: topic.results_by_partition, set_error)


def _rename_fenced(topics: Sequence[AddPartitionsToTxnTopicResult]) -> None:
    for topic in topics:
        for result in topic.results_by_partition:
            if result.partition_error_code == ErrorCode.PRODUCER_FENCED:
                result.partition_error_code = ErrorCode.INVALID_PRODUCER_EPOCH
