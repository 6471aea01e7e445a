"""Asking coordinators about transactions, with coordinators that answer as the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kafkapy.coordination.partitioning import partition_of
from kafkapy.coordination.topic_log import Done
from kafkapy.inter_broker.peers import PeerError
from kafkapy.metadata.cache import MetadataCache
from kafkapy.metadata.image import Broker, MetadataImage, PartitionState, Topic
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kafkapy.protocol.topic_names import TRANSACTION_STATE_TOPIC
from kafkapy.protocol.types import TopicPartition, random_uuid
from kafkapy.transactions.state_machine import Producer
from kafkapy.transactions.verifier import Participation, Refusals, Verifier

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class Coordinators:
    """Brokers 1 and 2, which lead a partition of the topic each; they answer when they are let."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, AddPartitionsToTxnRequest]] = []
        self.is_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.error = ErrorCode.NONE
        self.failure: PeerError | None = None

    async def ask(self, broker_id: int, request: AddPartitionsToTxnRequest, *, seconds: float) -> Any:
        self.asked.append((broker_id, request))
        self.is_asked.set()
        await self.may_answer.wait()
        if self.failure is not None:
            raise self.failure
        return AddPartitionsToTxnResponse(
            error_code=self.error,
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=transaction.transactional_id,
                    topic_results=[
                        AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=[
                                AddPartitionsToTxnPartitionResult(
                                    partition_index=index,
                                    partition_error_code=self.errors.get(
                                        TopicPartition(topic.name, index), 0
                                    ),
                                )
                                for index in topic.partitions
                            ],
                        )
                        for topic in transaction.topics
                    ],
                )
                for transaction in request.transactions
            ],
        )


class OwnCoordinator:
    """The coordinator of the broker that asks: it has the partitions of one transaction."""

    def __init__(self) -> None:
        self.partitions = frozenset({T0})
        self.errors: list[ErrorCode] = []
        """What is answered first, each once."""
        self.writes_later = False
        self.waiting: list[Done] = []

    def verify(self, transactional_id: str, producer: Producer) -> frozenset[TopicPartition]:
        if self.errors:
            raise KafkaError(self.errors.pop(0))
        return self.partitions

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        version: int,
        done: Done,
    ) -> None:
        assert version == 2
        if self.errors:
            done(self.errors.pop(0))
            return
        self.partitions |= set(partitions)
        if self.writes_later:
            self.waiting.append(done)
        else:
            done(ErrorCode.NONE)


def topic_led_by(name: str, *leaders: int) -> Topic:
    partitions = [
        PartitionState(replicas=(leader,), leader=leader, leader_epoch=0, isr=(leader,)) for leader in leaders
    ]
    return Topic(name, random_uuid(), tuple(partitions))


class World:
    def __init__(self, node_id: int = 3) -> None:
        self.cache = MetadataCache()
        topics = [topic_led_by(TRANSACTION_STATE_TOPIC, 1, 2), topic_led_by("t", 1, 1)]
        brokers = {number: Broker(number, None, {}) for number in (1, 2, 3)}
        self.cache.publish(replace(MetadataImage().with_topics(topics), brokers=brokers))
        self.coordinators = Coordinators()
        self.own = OwnCoordinator()
        self.is_made = True
        self.is_enabled = True
        self.verifier = Verifier(
            self.cache,
            self.coordinators,  # type: ignore[arg-type]
            lambda: self.own if self.is_made else None,  # type: ignore[arg-type, return-value]
            node_id=node_id,
            is_enabled=lambda: self.is_enabled,
            seconds=1.0,
            retry_seconds=0.001,
            most_retry_seconds=10.0,
        )

    def ask(
        self,
        name: str,
        *partitions: TopicPartition,
        adds: bool = False,
        knows_abortable: bool = True,
    ) -> Refusals | Awaitable[Refusals]:
        asked = Participation(name, 7, 0, partitions, adds=adds, knows_abortable=knows_abortable)
        return self.verifier.verify(asked)

    async def verify(
        self,
        name: str,
        *partitions: TopicPartition,
        adds: bool = False,
        knows_abortable: bool = True,
    ) -> Refusals:
        answer = self.ask(name, *partitions, adds=adds, knows_abortable=knows_abortable)
        return answer if isinstance(answer, dict) else await answer


def named(partition: int, count: int) -> Sequence[str]:
    """Transactional ids of one coordinator."""
    return [name for name in map(str, range(100)) if partition_of(name, 2) == partition][:count]


async def test_a_coordinator_is_asked_for_what_it_coordinates() -> None:
    world = World()
    (first,), (second,) = named(0, 1), named(1, 1)
    assert await world.verify(first, T0, T1, U0) == {}
    assert await world.verify(second, T0, adds=True) == {}
    (broker, request), (other_broker, other) = world.coordinators.asked
    assert (broker, other_broker) == (1, 2)
    (transaction,) = request.transactions
    assert (transaction.transactional_id, transaction.producer_id, transaction.verify_only) == (
        first,
        7,
        True,
    )
    assert [(topic.name, topic.partitions) for topic in transaction.topics] == [("t", [0, 1]), ("u", [0])]
    assert not other.transactions[0].verify_only


async def test_what_waits_is_asked_together_and_each_transaction_once() -> None:
    world = World()
    world.coordinators.may_answer.clear()
    a, b, c = named(0, 3)
    world.coordinators.errors = {U0: ErrorCode.TRANSACTION_ABORTABLE}
    questions = [(a, T0), (b, T0), (c, U0), (b, T1), (c, T0)]
    answers = [asyncio.ensure_future(world.verify(*question)) for question in questions]
    await world.coordinators.is_asked.wait()
    world.coordinators.may_answer.set()
    assert await asyncio.gather(*answers) == [{}, {}, {U0: ErrorCode.TRANSACTION_ABORTABLE}, {}, {}]
    asked = [
        [each.transactional_id for each in request.transactions] for _, request in world.coordinators.asked
    ]
    assert asked == [[a, b, c], [b, c]]


@pytest.mark.parametrize(
    ("of_coordinator", "knows_abortable", "of_producer"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, True, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, False, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.PRODUCER_FENCED, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.NOT_COORDINATOR, True, ErrorCode.NOT_COORDINATOR),
    ],
)
async def test_producers_get_errors_that_they_know(
    of_coordinator: ErrorCode, knows_abortable: bool, of_producer: ErrorCode
) -> None:
    world = World()
    world.coordinators.errors = {T1: of_coordinator}
    assert await world.verify("a", T0, T1, knows_abortable=knows_abortable) == {T1: of_producer}


async def test_without_an_answer_nothing_is_verified() -> None:
    world = World()
    world.coordinators.failure = PeerError("gone")
    assert await world.verify("a", T0) == {T0: ErrorCode.NETWORK_EXCEPTION}
    world.coordinators.failure = None
    world.coordinators.error = ErrorCode.NOT_COORDINATOR
    assert await world.verify("a", T0) == {T0: ErrorCode.NOT_COORDINATOR}
    world.coordinators.error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert await world.verify("a", T0) == {T0: ErrorCode.INVALID_TXN_STATE}
    world.cache.publish(replace(world.cache.image, brokers={}))
    assert await world.verify("a", T0) == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}


async def test_partitions_are_added_as_soon_as_the_transaction_before_is_complete() -> None:
    world = World()
    world.coordinators.errors = {T0: ErrorCode.CONCURRENT_TRANSACTIONS}
    assert await world.verify("a", T0) == {T0: ErrorCode.CONCURRENT_TRANSACTIONS}, "it was not to be added"
    answer = asyncio.ensure_future(world.verify("a", T0, adds=True))
    for _ in range(3):
        world.coordinators.is_asked.clear()
        await world.coordinators.is_asked.wait()
    world.coordinators.errors = {}
    assert await answer == {}


async def test_a_broker_that_does_not_verify_still_adds() -> None:
    world = World()
    world.is_enabled = False
    assert await world.verify("a", T0) == {}
    assert world.coordinators.asked == []
    await world.verify("a", T0, adds=True)
    assert len(world.coordinators.asked) == 1


async def test_this_brokers_coordinator_verifies_at_once() -> None:
    world = World(node_id=1)
    (name,) = named(0, 1)
    assert world.ask(name, T0) == {}
    assert world.ask(name, T0, T1) == {T1: ErrorCode.TRANSACTION_ABORTABLE}
    assert world.ask(name, T1, knows_abortable=False) == {T1: ErrorCode.INVALID_TXN_STATE}
    world.own.errors = [ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS]
    assert world.ask(name, T0) == {T0: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert world.ask(name, T0) == {T0: ErrorCode.CONCURRENT_TRANSACTIONS}
    assert world.coordinators.asked == []


async def test_this_brokers_coordinator_is_loading_until_it_is_made() -> None:
    world = World(node_id=1)
    (name,) = named(0, 1)
    world.is_made = False
    assert world.ask(name, T0) == {T0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert world.ask(name, T0, adds=True) == {T0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


async def test_this_brokers_coordinator_adds_at_once_or_when_it_is_written() -> None:
    world = World(node_id=1)
    (name,) = named(0, 1)
    assert world.ask(name, T1, adds=True) == {}
    assert world.own.partitions == {T0, T1}
    assert world.ask(name, U0, adds=True) == {U0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    world.own.writes_later = True
    answers = [asyncio.ensure_future(world.verify(name, T1, adds=True)) for _ in range(2)]
    await asyncio.sleep(0)
    for done, error in zip(world.own.waiting, (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR), strict=True):
        done(error)
    assert await asyncio.gather(*answers) == [{}, {T1: ErrorCode.NOT_COORDINATOR}]
    assert world.coordinators.asked == []


async def test_this_brokers_coordinator_is_asked_again_while_the_transaction_before_ends() -> None:
    world = World(node_id=1)
    (name,) = named(0, 1)
    world.own.errors = [ErrorCode.CONCURRENT_TRANSACTIONS] * 3
    assert await world.verify(name, T1, adds=True) == {}
    assert world.own.errors == []


async def test_a_stop_refuses_what_waits() -> None:
    world = World()
    world.coordinators.may_answer.clear()
    a, b = named(0, 2)
    answers = [asyncio.ensure_future(world.verify(name, T0)) for name in (a, b)]
    await world.coordinators.is_asked.wait()
    waiting = asyncio.ensure_future(world.verify(a, T1))
    await asyncio.sleep(0)
    await world.verifier.stop()
    assert await asyncio.gather(*answers, waiting) == [
        {T0: ErrorCode.NETWORK_EXCEPTION},
        {T0: ErrorCode.NETWORK_EXCEPTION},
        {T1: ErrorCode.NETWORK_EXCEPTION},
    ]
