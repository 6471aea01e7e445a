"""Brokers of a cluster without logs.

Each has its own session, and notes what the controller tells it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kafkapy.configs.config import BrokerConfig
from kafkapy.controller.admin import ClusterAdmin
from kafkapy.controller.controller import Controller
from kafkapy.controller.topic_plans import NewTopic
from kafkapy.inter_broker.peers import PeerAddress, PeerError
from kafkapy.metadata.cache import MetadataCache, open_cluster
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.image import MetadataImage, PartitionState, Topic
from kafkapy.metadata.store import Operation, OutcomeUnknownError
from kafkapy.metadata.tree_changes import TreeChanges
from kafkapy.metadata.znodes import Endpoint
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from kafkapy.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from kafkapy.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kafkapy.protocol.types import TopicPartition
from tests.loop.turned_clock import TurnedClock
from tests.metadata.intercepted_store import InterceptedStore, Multi

T = TypeVar("T")

DEADLINE = 15
POLL = 0.005
"""Seconds."""
RETRY_SECONDS = 0.01
"""How soon a broker follows the tree again after a failure."""


class Replicas:
    """The replicas of one broker: it obeys, and remembers what it was told.

    As a broker does, it refuses what was meant for an earlier registration, or comes from an old controller.
    """

    def __init__(self, broker_epoch: Callable[[], int]) -> None:
        self._broker_epoch = broker_epoch
        self._controller_epoch = 0
        self.requests: list[Any] = []
        self.told: dict[TopicPartition, LeaderAndIsrPartitionState] = {}
        """What LeaderAndIsr said last of each partition."""
        self.stopped: dict[TopicPartition, bool] = {}
        """The partitions that were stopped since, each with whether it was deleted."""
        self.leaders: dict[TopicPartition, int] = {}
        """The leaders, by UpdateMetadata."""
        self.offline: dict[TopicPartition, list[int]] = {}
        """The offline replicas, by UpdateMetadata."""
        self.failed: set[TopicPartition] = set()
        """Partitions in a log directory that failed."""
        self.answers = asyncio.Event()
        """Whether it answers."""
        self.answers.set()

    async def leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        self.requests.append(request)
        await self.answers.wait()
        response = LeaderAndIsrResponse(error_code=self._fence(request))
        if response.error_code:
            return response
        for topic in request.topic_states:
            answer = LeaderAndIsrTopicError(topic_id=topic.topic_id)
            response.topics.append(answer)
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                self.told[partition] = state
                self.stopped.pop(partition, None)
                failed = partition in self.failed
                code = ErrorCode.KAFKA_STORAGE_ERROR if failed else ErrorCode.NONE
                answer.partition_errors.append(
                    LeaderAndIsrPartitionError(partition_index=state.partition_index, error_code=code)
                )
        return response

    async def stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        self.requests.append(request)
        await self.answers.wait()
        response = StopReplicaResponse(error_code=self._fence(request))
        if response.error_code:
            return response
        for topic in request.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                self.stopped[partition] = state.delete_partition
                self.told.pop(partition, None)
                failed = partition in self.failed
                code = ErrorCode.KAFKA_STORAGE_ERROR if failed else ErrorCode.NONE
                response.partition_errors.append(
                    StopReplicaPartitionError(
                        topic_name=topic.topic_name, partition_index=state.partition_index, error_code=code
                    )
                )
        return response

    async def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        self.requests.append(request)
        if code := self._fence(request):
            return UpdateMetadataResponse(error_code=code)
        for topic in request.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                self.leaders[partition] = state.leader
                self.offline[partition] = list(state.offline_replicas)
        return UpdateMetadataResponse()

    def _fence(self, request: Any) -> ErrorCode:
        if request.broker_epoch < self._broker_epoch():
            return ErrorCode.STALE_BROKER_EPOCH
        if request.controller_epoch < self._controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self._controller_epoch = request.controller_epoch
        return ErrorCode.NONE

    def led(self, broker: int) -> dict[TopicPartition, int]:
        """The leader epochs of the partitions that this broker leads, as it was told."""
        return {each: state.leader_epoch for each, state in self.told.items() if state.leader == broker}


class Member:
    """One broker of the cluster."""

    def __init__(self, world: World, node_id: int, settings: dict[str, str]) -> None:
        self.world = world
        self.id = node_id
        self.replicas = Replicas(lambda: self.epoch)
        self.cache = MetadataCache()
        self.config = BrokerConfig(settings, clustered=True)
        self.loses_answer: Callable[[Sequence[Operation]], bool | None] = lambda operations: None
        """Whether a change is made to which the answer is lost; None if it is answered."""

    @property
    def image(self) -> MetadataImage:
        return self.cache.image

    @property
    def epoch(self) -> int:
        return self.image.brokers[self.id].epoch

    @property
    def controller(self) -> Controller:
        return self.admin.active_controller()

    @property
    def turn(self) -> asyncio.Lock:
        """The lock of each change of the metadata: the controller does not act while a test has it."""
        return self.admin.writer.turn

    async def _unreliable(self, multi: Multi, operations: Sequence[Operation]) -> list[str | int | None]:
        is_made = self.loses_answer(operations)
        if is_made is None:
            return await multi(operations)
        if is_made:
            await multi(operations)
        raise OutcomeUnknownError("the connection was lost")

    async def start(self) -> None:
        self.store = InterceptedStore(await EmbeddedStore.open(self.world.path / "metadata.db", sync=False))
        self.store.intercept("multi", self._unreliable)
        changes = TreeChanges(self.store)
        await changes.watch()
        image = await open_cluster(self.store, shared=True)
        self.admin = ClusterAdmin(
            self.store,
            self.cache,
            self.config,
            changes,
            node_id=self.id,
            clock=TurnedClock(),
            own_broker=self.replicas,
            peers=self.world,
        )
        self.admin.retry_seconds = RETRY_SECONDS
        await self.admin.start(image, [Endpoint("PLAINTEXT", "localhost", 9091 + self.id, "PLAINTEXT")])

    async def stop(self) -> None:
        await self.admin.stop()
        await self.store.close()


class MemberPeer:
    """A connection to a broker of the same process."""

    def __init__(self, world: World, address: PeerAddress) -> None:
        self.address = address
        self._world = world
        self._is_closed = False

    async def version(self, api_key: int) -> int:
        return 0

    async def ask(self, request: Any, *, seconds: float) -> Any:
        await asyncio.sleep(0)
        member = self._world.members.get(self.address.id)
        is_there = member is not None and self.address.id in member.image.brokers
        if member is None or not is_there or self._is_closed or self.address.id in self._world.unreachable:
            raise PeerError(f"broker {self.address.id} cannot be reached")
        if isinstance(request, LeaderAndIsrRequest):
            return await member.replicas.leader_and_isr(request)
        if isinstance(request, StopReplicaRequest):
            return await member.replicas.stop_replica(request)
        return await member.replicas.update_metadata(request)

    def close(self) -> None:
        self._is_closed = True


class World:
    """The cluster; it is the peers of its brokers too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.members: dict[int, Member] = {}
        self.unreachable: set[int] = set()
        self.prepare: Callable[[Member], object] = lambda member: None
        """Called with a broker before it starts."""

    def connect(self, address: PeerAddress, purpose: str) -> MemberPeer:
        return MemberPeer(self, address)

    async def start(self, *node_ids: int, **settings: str) -> list[Member]:
        settings = {name.replace("_", "."): value for name, value in settings.items()}
        started = []
        for node_id in node_ids:
            member = Member(self, node_id, settings)
            self.members[node_id] = member
            self.prepare(member)
            await member.start()
            started.append(member)
        return started

    async def stop(self, *node_ids: int) -> None:
        for node_id in node_ids:
            await self.members.pop(node_id).stop()

    @property
    def controller(self) -> Member:
        """The broker that is the controller."""
        (found,) = (member for member in self.members.values() if member.image.controller_id == member.id)
        return found

    async def until(self, holds: Callable[[], T | None]) -> T:
        """Wait until this is true; return it."""
        async with asyncio.timeout(DEADLINE):
            while True:
                found = _held(holds)
                if found:
                    return found
                await asyncio.sleep(POLL)

    async def create(self, name: str, *assignments: Iterable[int], **configs: str) -> Topic:
        """Create a topic whose partitions have these replicas."""
        new = NewTopic(
            name,
            assignments=[(index, tuple(replicas)) for index, replicas in enumerate(assignments)],
            configs={setting.replace("_", "."): value for setting, value in configs.items()},
        )
        await self.until(lambda: self.controller.controller.term.has_begun)
        topic = (await self.controller.admin.topics.create_topics([new]))[name]
        assert isinstance(topic, Topic), topic
        return topic

    def state(self, name: str = "t", index: int = 0) -> PartitionState:
        """The state of a partition, as the controller has published it."""
        state = self.controller.image.partition(name, index)
        assert state is not None
        return state

    async def led_by(self, leader: int, name: str = "t", index: int = 0) -> PartitionState:
        """Wait until a partition has a leader, which knows of it; return its state."""
        partition = TopicPartition(name, index)

        def holds() -> PartitionState | None:
            state = self.state(name, index)
            if state.leader != leader:
                return None
            told = None if leader < 0 else self.members[leader].replicas.told.get(partition)
            is_told = leader < 0 or (told is not None and told.leader_epoch == state.leader_epoch)
            return state if is_told else None

        return await self.until(holds)

    async def settled(self) -> MetadataImage:
        """Wait until all brokers have the same image, and know what it says; return it."""

        def holds() -> MetadataImage | None:
            acting = self.controller
            if acting.turn.locked() or not acting.controller.term.has_begun:
                return None
            image = acting.image
            images = {id(member): member.image for member in self.members.values()}
            is_shown = all(each == image for each in images.values())
            return (
                image
                if is_shown and all(self._knows(each, image) for each in self.members.values())
                else None
            )

        return await self.until(holds)

    def _knows(self, member: Member, image: MetadataImage) -> bool:
        """Whether a broker was told the present state of each of its replicas."""
        told = member.replicas.told
        expected = {
            TopicPartition(topic.name, index): state
            for topic in image.topics.values()
            for index, state in enumerate(topic.partitions)
            if member.id in state.replicas and state.version >= 0
        }
        return set(told) >= set(expected) and all(
            (told[each].leader, told[each].leader_epoch) == (state.leader, state.leader_epoch)
            and set(told[each].replicas) == set(state.replicas)
            for each, state in expected.items()
        )


def _held(holds: Callable[[], T | None]) -> T | None:
    try:
        return holds()
    except (ValueError, KeyError, AssertionError):
        return None


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    yield made
    for node_id in list(made.members):
        await made.stop(node_id)
