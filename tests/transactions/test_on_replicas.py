"""Coordinators on replicated partitions.

What is decided survives the leader, and is ended once.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kafkapy.loop.clock import Clock
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.topic_names import TRANSACTION_STATE_TOPIC
from kafkapy.protocol.types import TopicPartition
from kafkapy.transactions.config import TransactionConfig
from kafkapy.transactions.coordinator import TransactionCoordinator
from kafkapy.transactions.markers import Marker, MarkerSender
from kafkapy.transactions.metadata import TransactionState
from kafkapy.transactions.state_machine import Producer
from tests.replicas.cluster_rig import Node, Rig
from tests.replicas.held_files import until
from tests.transactions.transaction_world import T0, U0, Leaders

PARTITION = TopicPartition(TRANSACTION_STATE_TOPIC, 0)
CONFIG = TransactionConfig(request_timeout_ms=200)


class Brokers:
    """Three brokers with the one partition of the topic; broker 1 leads it."""

    def __init__(self, root: Path) -> None:
        self.rig = Rig(root, 3)
        self.leaders = Leaders()
        self.ids = itertools.count(1000)
        self.transactions = {number: self.coordinator(self.rig[number]) for number in (1, 2, 3)}

    def coordinator(self, node: Node) -> TransactionCoordinator:
        log = node.topic_log(TRANSACTION_STATE_TOPIC)
        made = TransactionCoordinator(
            CONFIG,
            Clock(),
            node.timers,
            log,
            MarkerSender(self.leaders.leader_of, self.leaders.ask, node.timers),
            new_producer_id=self.new_id,
            blocking=node.blocking,
            version=0,
        )
        node.replicas.on_leadership(made.leadership_changed)
        made.start()
        return made

    async def new_id(self) -> int:
        return next(self.ids)

    async def start(self) -> Brokers:
        before = self.rig.image
        self.rig.controller.create((1, 2, 3), key=PARTITION, configs={"cleanup.policy": "compact"})
        for transactions in self.transactions.values():
            transactions.metadata_changed(before, self.rig.image)
        await self.rig.controller.elect(1, key=PARTITION)
        await self.available(1)
        return self

    async def elect(self, leader: int, isr: tuple[int, ...], tell: tuple[int, ...] | None = None) -> None:
        await self.rig.controller.elect(leader, isr, key=PARTITION, tell=tell)
        await self.available(leader)

    async def available(self, number: int) -> None:
        await until(lambda: self.transactions[number].runtime.is_active("x"))

    async def add(self, number: int, producer: Producer, *partitions: TopicPartition) -> ErrorCode:
        answer: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self.transactions[number].add_partitions("x", producer, partitions, 0, answer.set_result)
        return await answer

    async def end(self, number: int, producer: Producer, *, commit: bool) -> ErrorCode:
        answer: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self.transactions[number].end(
            "x", producer, commit=commit, version=0, done=lambda error, after: answer.set_result(error)
        )
        return await answer

    def state(self, number: int) -> TransactionState | None:
        """The state of x as a broker has it; None if it does not coordinate it."""
        try:
            return self.transactions[number].describe("x").state
        except KafkaError:
            return None

    def cut_off(self, number: int) -> None:
        """Let no broker reach this one."""
        self.rig.wire.cut |= {frozenset((number, other)) for other in (1, 2, 3) if other != number}

    async def close(self) -> None:
        self.leaders.release()
        for transactions in self.transactions.values():
            await transactions.stop()
        await self.rig.close()


@pytest.fixture
async def brokers(tmp_path: Path) -> AsyncIterator[Brokers]:
    made = Brokers(tmp_path)
    yield await made.start()
    await made.close()


@pytest.mark.parametrize("commit", [True, False])
async def test_the_next_leader_ends_what_is_prepared(brokers: Brokers, commit: bool) -> None:
    producer = await brokers.transactions[1].init_producer_id("x", 60_000, None)
    assert await brokers.add(1, producer, T0, U0) is ErrorCode.NONE
    brokers.leaders.hold.add(2)
    assert await brokers.end(1, producer, commit=commit) is ErrorCode.NONE
    await until(lambda: T0 in brokers.leaders.written)
    await brokers.elect(2, (1, 2, 3))
    done = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
    brokers.leaders.release()
    await until(lambda: brokers.state(2) is done)
    assert brokers.state(1) is None
    first, second = brokers.leaders.written[T0]
    assert second == first._replace(coordinator_epoch=first.coordinator_epoch + 1)
    assert {marker.commit for marker in brokers.leaders.written[U0]} == {commit}
    assert await brokers.add(1, producer, T0) is ErrorCode.NOT_COORDINATOR
    assert await brokers.end(2, producer, commit=commit) is ErrorCode.NONE, "the answer was lost"
    assert await brokers.add(2, producer, T0) is ErrorCode.NONE


async def test_a_leader_that_was_replaced_without_knowing_decides_nothing(brokers: Brokers) -> None:
    producer = await brokers.transactions[1].init_producer_id("x", 60_000, None)
    assert await brokers.add(1, producer, T0) is ErrorCode.NONE
    brokers.cut_off(1)
    await brokers.elect(2, (2, 3), tell=(2, 3))
    assert await brokers.end(1, producer, commit=True) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await brokers.end(2, producer, commit=False) is ErrorCode.NONE
    await until(lambda: brokers.state(2) is TransactionState.COMPLETE_ABORT)
    brokers.rig.wire.cut.clear()
    await brokers.rig.controller.tell((1,), key=PARTITION)
    await until(lambda: brokers.state(1) is None)
    assert [marker.commit for marker in brokers.leaders.written[T0]] == [False]


async def test_a_leader_that_stays_goes_on_with_its_new_epoch(brokers: Brokers) -> None:
    producer = await brokers.transactions[1].init_producer_id("x", 60_000, None)
    assert await brokers.add(1, producer, T0) is ErrorCode.NONE
    epoch = brokers.rig[1].replicas.partition(*PARTITION).leader_epoch
    await brokers.elect(1, (1, 2, 3))
    assert await brokers.end(1, producer, commit=True) is ErrorCode.NONE
    await until(lambda: brokers.state(1) is TransactionState.COMPLETE_COMMIT)
    assert brokers.leaders.written[T0] == [Marker(producer.id, producer.epoch, epoch + 1, True, 0)]
