"""Coordinators of transactions on a log in memory.

Partitions take markers as they are told.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

from kafkapy.inter_broker.peers import PeerError
from kafkapy.metadata.image import NO_LEADER, MetadataImage, Topic
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafkapy.protocol.topic_names import TRANSACTION_STATE_TOPIC
from kafkapy.protocol.types import TopicPartition, random_uuid
from kafkapy.transactions.config import TransactionConfig
from kafkapy.transactions.coordinator import TransactionCoordinator
from kafkapy.transactions.markers import Marker, MarkerSender
from kafkapy.transactions.metadata import TransactionState
from kafkapy.transactions.state_machine import Producer
from tests.groups.memory_log import MemoryLog, lead_all, run_here
from tests.loop.turned_clock import TurnedClock, TurnedTimers

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class TransactionLog(MemoryLog):
    """`__transaction_state` in memory."""

    topic = TRANSACTION_STATE_TOPIC

    def __init__(self, partitions: int = 4) -> None:
        super().__init__(partitions)
        self.epoch = 0

    def leader_epoch(self, partition: int) -> int:
        return self.epoch

    def entry(self) -> Topic:
        return Topic(TRANSACTION_STATE_TOPIC, random_uuid(), ())


class Leaders:
    """The leaders of partitions: what they have written, and what they answer."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, int] = {T0: 1, T1: 1, U0: 2}
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.unreachable: set[int] = set()
        self.hold: set[int] = set()
        """The brokers that do not answer yet."""
        self.slow: set[TopicPartition] = set()
        """The partitions whose broker does not answer yet if it is asked to write to them."""
        self.written: dict[TopicPartition, list[Marker]] = {}
        self.requests: list[tuple[int, WriteTxnMarkersRequest]] = []
        self._answering: list[asyncio.Future[None]] = []

    def leader_of(self, partition: TopicPartition) -> int | None:
        return self.leaders.get(partition)

    def release(self) -> None:
        """Answer what has been held."""
        self.hold.clear()
        self.slow.clear()
        for waiting in self._answering:
            waiting.set_result(None)
        self._answering.clear()

    async def ask(
        self, broker: int, request: WriteTxnMarkersRequest, connection: int
    ) -> WriteTxnMarkersResponse:
        assert broker != NO_LEADER
        self.requests.append((broker, request))
        if broker in self.unreachable:
            raise PeerError(f"broker {broker} is away")
        asked = {
            TopicPartition(topic.name, index)
            for each in request.markers
            for topic in each.topics
            for index in topic.partition_indexes
        }
        if broker in self.hold or not self.slow.isdisjoint(asked):
            answer = asyncio.get_running_loop().create_future()
            self._answering.append(answer)
            await answer
        response = WriteTxnMarkersResponse()
        for each in request.markers:
            marker = Marker(
                each.producer_id,
                each.producer_epoch,
                each.coordinator_epoch,
                each.transaction_result,
                each.transaction_version,
            )
            topics = []
            for topic in each.topics:
                results = []
                for index in topic.partition_indexes:
                    partition = TopicPartition(topic.name, index)
                    assert self.leaders[partition] == broker
                    error = self.errors.get(partition, ErrorCode.NONE)
                    if error is ErrorCode.NONE:
                        self.written.setdefault(partition, []).append(marker)
                    results.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=error))
                topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=results))
            response.markers.append(WritableTxnMarkerResult(producer_id=each.producer_id, topics=topics))
        return response


class TransactionWorld:
    """A log, leaders, and the coordinator of the moment."""

    def __init__(self, version: int = 2, config: TransactionConfig | None = None) -> None:
        self.version = version
        self.config = config or TransactionConfig()
        self.clock = TurnedClock()
        self.timers = TurnedTimers(self.clock)
        self.log = TransactionLog()
        self.leaders = Leaders()
        self.ids = itertools.count(1000)
        self.coordinator: TransactionCoordinator = self._coordinator()

    def _coordinator(self) -> TransactionCoordinator:
        markers = MarkerSender(self.leaders.leader_of, self.leaders.ask, self.timers)
        made = TransactionCoordinator(
            self.config,
            self.clock,
            self.timers,
            self.log,
            markers,
            new_producer_id=self._new_id,
            blocking=run_here,
            version=self.version,
        )
        lead_all(made.runtime, self.log)
        image = MetadataImage()
        self.log.created = lambda: made.metadata_changed(image, image.with_topics([self.log.entry()]))
        made.start()
        return made

    async def _new_id(self) -> int:
        return next(self.ids)

    async def begin(self) -> TransactionWorld:
        """Create the topic."""
        await self.coordinator.runtime.ensure_topic()
        return self

    async def restart(self) -> None:
        """Kill the coordinator; another one loads the log."""
        await self.coordinator.stop()
        self.log.leadership_lost_everywhere()
        self.coordinator = self._coordinator()
        await self.until(lambda: not self.coordinator.runtime.is_loading)

    async def until(self, holds: Callable[[], Any]) -> None:
        """Let events happen, and time pass, until this is true."""
        for _ in range(2000):
            if holds():
                return
            await asyncio.sleep(0)
            self.timers.advance(0.01)
        raise AssertionError("it does not come true")

    async def init(
        self, name: str = "x", expected: Producer | None = None, timeout_ms: int = 60_000
    ) -> Producer:
        return await self.coordinator.init_producer_id(name, timeout_ms, expected)

    async def add(
        self, producer: Producer, *partitions: TopicPartition, name: str = "x", version: int = 2
    ) -> ErrorCode:
        answer: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self.coordinator.add_partitions(name, producer, partitions, version, answer.set_result)
        return await answer

    async def end(
        self, producer: Producer, *, commit: bool, name: str = "x", version: int = 2
    ) -> tuple[ErrorCode, Producer]:
        answer: asyncio.Future[tuple[ErrorCode, Producer]] = asyncio.get_running_loop().create_future()
        self.coordinator.end(
            name,
            producer,
            commit=commit,
            version=version,
            done=lambda error, after: answer.set_result((error, after)),
        )
        return await answer

    def state(self, name: str = "x") -> TransactionState:
        return self.coordinator.describe(name).state

    async def completed(self, name: str = "x") -> TransactionState:
        """Wait until the transaction has ended; its outcome."""
        await self.until(lambda: self.state(name).is_at_rest)
        return self.state(name)
