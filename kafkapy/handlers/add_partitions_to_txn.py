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

from kafkapy.coordination.answer import Answer
from kafkapy.handlers.context import BrokerParts, RequestContext
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kafkapy.protocol.topic_names import is_internal
from kafkapy.protocol.types import TopicPartition
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

        yield from _add_all(context.broker, request.transactions, version, all_done)
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
    yield from _add_all(context.broker, [transaction], version, done)
    return answer.result()


def _add_all(
    broker: BrokerParts,
    transactions: Sequence[AddPartitionsToTxnTransaction],
    api_version: int,
    done: Callable[[list[AddPartitionsToTxnResult]], None],
) -> Steps[None]:
    """Add partitions, or verify them; `done` is called once with the results."""
    image = broker.metadata.image
    version = EPOCH_AT_EACH_END if api_version >= FIRST_VERSION_WITH_EPOCHS else 0
    from_client = api_version < FIRST_VERSION_OF_BROKERS
    results: list[AddPartitionsToTxnResult] = []
    waiting = 1

    def one_less() -> None:
        nonlocal waiting
        waiting -= 1
        if not waiting:
            done(results)

    for transaction in transactions:
        yield
        result = AddPartitionsToTxnResult(transactional_id=transaction.transactional_id)
        results.append(result)
        partitions: set[TopicPartition] = set()
        is_refused = False
        for topic in transaction.topics:
            yield
            answer = AddPartitionsToTxnTopicResult(name=topic.name)
            result.topic_results.append(answer)
            is_forbidden = from_client and is_internal(topic.name)
            for index in topic.partitions:
                yield
                each = AddPartitionsToTxnPartitionResult(partition_index=index)
                answer.results_by_partition.append(each)
                if is_forbidden:
                    each.partition_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    is_refused = True
                elif image.partition(topic.name, index) is None:
                    each.partition_error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    is_refused = True
                else:
                    partitions.add(TopicPartition(topic.name, index))
        if is_refused:
            yield from _set_errors(result, ErrorCode.OPERATION_NOT_ATTEMPTED)
            continue
        producer = Producer(transaction.producer_id, transaction.producer_epoch)
        if transaction.verify_only:
            yield from _verify(broker, transaction, producer, result)
            continue

        def added(error: ErrorCode, result: AddPartitionsToTxnResult = result) -> None:
            if error:
                for topic in result.topic_results:
                    for each in topic.results_by_partition:
                        each.partition_error_code = error
            one_less()

        waiting += 1
        broker.transactions.add_partitions(transaction.transactional_id, producer, partitions, version, added)
    one_less()


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
    for topic in result.topic_results:
        yield
        for each in topic.results_by_partition:
            yield
            if not each.partition_error_code and (topic.name, each.partition_index) not in but:
                each.partition_error_code = error


def _rename_fenced(topics: Sequence[AddPartitionsToTxnTopicResult]) -> None:
    for topic in topics:
        for result in topic.results_by_partition:
            if result.partition_error_code == ErrorCode.PRODUCER_FENCED:
                result.partition_error_code = ErrorCode.INVALID_PRODUCER_EPOCH
