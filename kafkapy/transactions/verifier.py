"""Asks transaction coordinators whether partitions are part of a transaction.

A leader asks before a producer begins a transaction in one of its partitions (storage/log/verification.py).
Newer producers leave it to the leader to add the partition. The coordinator is the leader of the
transactional id's partition of `__transaction_state`. This broker's own coordinator mostly answers at once.
One request goes to another one at a time. Questions that come meanwhile go into the next one together,
where each transactional id is named once.

Source: AddPartitionsToTxnManager; KIP-890.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkapy.coordination.answer import Answer
from kafkapy.coordination.partitioning import partition_of
from kafkapy.inter_broker.inter_broker import InterBroker
from kafkapy.inter_broker.peers import PeerError
from kafkapy.metadata.cache import MetadataCache
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafkapy.protocol.topic_names import TRANSACTION_STATE_TOPIC
from kafkapy.protocol.types import TopicPartition
from kafkapy.transactions.metadata import EPOCH_AT_EACH_END
from kafkapy.transactions.state_machine import Producer

if TYPE_CHECKING:
    from kafkapy.transactions.coordinator import TransactionCoordinator

Refusals = dict[TopicPartition, ErrorCode]
"""The partitions that are not part of the transaction, each with the error for the producer."""

_FOR_PRODUCERS: Final = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ErrorCode.INVALID_TXN_STATE,
}
"""The errors for which producers expect another one."""


class Participation(NamedTuple):
    """Partitions that a producer wants to write to in a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]
    adds: bool
    """Whether the partitions are added. Otherwise the producer has added them, which is verified."""
    knows_abortable: bool
    """Whether the producer knows the error TRANSACTION_ABORTABLE."""

    def refused(self, error: ErrorCode) -> Refusals:
        """All partitions, refused with the same error."""
        return dict.fromkeys(self.partitions, self.error_for_producer(error))

    def error_for_producer(self, error: ErrorCode) -> ErrorCode:
        """The error for the producer."""
        if error is ErrorCode.TRANSACTION_ABORTABLE and not self.knows_abortable:
            return ErrorCode.INVALID_TXN_STATE
        return _FOR_PRODUCERS.get(error, error)

    def transaction(self) -> AddPartitionsToTxnTransaction:
        """The part of a request."""
        topics: dict[str, list[int]] = {}
        for topic, index in self.partitions:
            topics.setdefault(topic, []).append(index)
        return AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            verify_only=not self.adds,
            topics=[AddPartitionsToTxnTopic(name=name, partitions=found) for name, found in topics.items()],
        )


_Waiting = tuple[Participation, "asyncio.Future[Refusals]"]


class Verifier:
    """Asks the coordinators of transactions."""

    def __init__(
        self,
        metadata: MetadataCache,
        inter_broker: InterBroker,
        own: Callable[[], TransactionCoordinator | None],
        *,
        node_id: int,
        is_enabled: Callable[[], bool],
        seconds: float,
        retry_seconds: float,
        most_retry_seconds: float,
    ) -> None:
        """`own` has the coordinator of this broker, which is `node_id`, once it is made.

        `is_enabled` says whether partitions are verified that a producer has added. `seconds` is the limit
        for the answer of another broker.

        While the transaction before is still being completed, a coordinator is asked again every
        `retry_seconds` for at most `most_retry_seconds`, so that the producer need not send its records
        again.
        """
        self._metadata = metadata
        self._inter_broker = inter_broker
        self._own = own
        self._node_id = node_id
        self._is_enabled = is_enabled
        self._seconds = seconds
        self._retry_seconds = retry_seconds
        self._most_retry_seconds = most_retry_seconds
        self._waiting: dict[int, deque[_Waiting]] = {}
        """The questions for each coordinator, by its broker."""
        self._asking: dict[int, asyncio.Task[None]] = {}

    def verify(self, asked: Participation) -> Refusals | Awaitable[Refusals]:
        """Verify or add partitions; return those that were refused, at once if they are known."""
        refusals = self._ask(asked)
        if isinstance(refusals, dict) and not _is_to_repeat(asked, refusals):
            return refusals
        return self._repeat(asked, refusals)

    async def stop(self) -> None:
        """Ask no more; what waits is refused with NETWORK_EXCEPTION."""
        for task in tuple(self._asking.values()):
            task.cancel()
        if self._asking:
            await asyncio.wait(self._asking.values())

    async def _repeat(self, asked: Participation, answer: Refusals | Awaitable[Refusals]) -> Refusals:
        """Ask again while the transaction before is being completed; `answer` is the first answer."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._most_retry_seconds
        while True:
            refusals = answer if isinstance(answer, dict) else await answer
            if not _is_to_repeat(asked, refusals) or loop.time() >= end:
                return refusals
            await asyncio.sleep(self._retry_seconds)
            answer = self._ask(asked)

    def _ask(self, asked: Participation) -> Refusals | asyncio.Future[Refusals]:
        if not asked.adds and not self._is_enabled():
            return {}
        broker = self._coordinator(asked.transactional_id)
        if broker is None:
            return asked.refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if broker == self._node_id:
            own = self._own()
            if own is None:
                return asked.refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return self._add(own, asked) if asked.adds else self._verify(own, asked)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Refusals] = loop.create_future()
        self._waiting.setdefault(broker, deque()).append((asked, answer))
        if broker not in self._asking:
            self._asking[broker] = loop.create_task(self._ask_all(broker))
        return answer

    def _add(self, own: TransactionCoordinator, asked: Participation) -> Refusals | asyncio.Future[Refusals]:
        """Have this broker's coordinator add the partitions."""
        image = self._metadata.image
        if any(image.partition(*partition) is None for partition in asked.partitions):
            return asked.refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        answer: Answer[Refusals] = Answer()
        own.add_partitions(
            asked.transactional_id,
            Producer(asked.producer_id, asked.producer_epoch),
            asked.partitions,
            EPOCH_AT_EACH_END,
            lambda error: answer(asked.refused(error) if error else {}),
        )
        return answer.result()

    def _verify(self, own: TransactionCoordinator, asked: Participation) -> Refusals:
        """Have this broker's coordinator verify the partitions."""
        try:
            found = own.verify(asked.transactional_id, Producer(asked.producer_id, asked.producer_epoch))
        except KafkaError as error:
            return asked.refused(error.code)
        if found.issuperset(asked.partitions):
            return {}
        missing = asked.error_for_producer(ErrorCode.TRANSACTION_ABORTABLE)
        return {partition: missing for partition in asked.partitions if partition not in found}

    def _coordinator(self, transactional_id: str) -> int | None:
        """The broker that coordinates the transactions of this id; None if none does at present."""
        image = self._metadata.image
        topic = image.topics.get(TRANSACTION_STATE_TOPIC)
        if topic is None:
            return None
        leader = topic.partitions[partition_of(transactional_id, len(topic.partitions))].leader
        return leader if leader in image.brokers else None

    async def _ask_all(self, broker: int) -> None:
        """Ask a coordinator until nothing waits for it."""
        waiting = self._waiting[broker]
        asked: dict[str, _Waiting] = {}
        try:
            while waiting:
                asked = _take(waiting)
                found = await self._exchange(broker, [participation for participation, _ in asked.values()])
                for transactional_id, (participation, answer) in asked.items():
                    missing = participation.refused(ErrorCode.UNKNOWN_SERVER_ERROR)
                    _answer(answer, found.get(transactional_id, missing))
        finally:
            for participation, answer in (*asked.values(), *waiting):
                _answer(answer, participation.refused(ErrorCode.NETWORK_EXCEPTION))
            del self._waiting[broker], self._asking[broker]

    async def _exchange(self, broker: int, asked: Sequence[Participation]) -> dict[str, Refusals]:
        """Ask a coordinator once."""
        request = AddPartitionsToTxnRequest(transactions=[each.transaction() for each in asked])
        try:
            response = await self._inter_broker.ask(broker, request, seconds=self._seconds)
            error = ErrorCode(response.error_code)
        except PeerError:
            error = ErrorCode.NETWORK_EXCEPTION
        if error is not ErrorCode.NONE:
            return {each.transactional_id: each.refused(error) for each in asked}
        by_id = {each.transactional_id: each for each in asked}
        return {
            result.transactional_id: {
                TopicPartition(topic.name, partition.partition_index): by_id[
                    result.transactional_id
                ].error_for_producer(ErrorCode(partition.partition_error_code))
                for topic in result.topic_results
                for partition in topic.results_by_partition
                if partition.partition_error_code
            }
            for result in response.results_by_transaction
            if result.transactional_id in by_id
        }


def _is_to_repeat(asked: Participation, refusals: Refusals) -> bool:
    return asked.adds and ErrorCode.CONCURRENT_TRANSACTIONS in refusals.values()


def _take(waiting: deque[_Waiting]) -> dict[str, _Waiting]:
    """Remove what goes into the next request, by transactional id; the first of each."""
    taken: dict[str, _Waiting] = {}
    for _ in range(len(waiting)):
        each = waiting.popleft()
        if each[0].transactional_id in taken:
            waiting.append(each)
        else:
            taken[each[0].transactional_id] = each
    return taken


def _answer(answer: asyncio.Future[Refusals], refusals: Refusals) -> None:
    if not answer.done():
        answer.set_result(refusals)
