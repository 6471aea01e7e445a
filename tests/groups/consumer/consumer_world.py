"""A coordinator with a log in memory, and what it needs.

The test changes topics, and clients follow the protocol.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kafkapy.groups.config import GroupConfig
from kafkapy.groups.consumer.group import ConsumerGroup
from kafkapy.groups.modern.heartbeats import Client
from kafkapy.metadata.image import Broker
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafkapy.protocol.types import Uuid
from tests.groups.groups_world import GroupsWorld
from tests.groups.memory_log import Blocking, run_here

Owned = set[tuple[Uuid, int]]
REBALANCE_MS = 60_000


class Claim(NamedTuple):
    """Who a client says it is, and the partitions whose offsets it commits."""

    member_id: str
    instance_id: str | None
    epoch: int
    """The epoch, or the generation."""
    partitions: frozenset[tuple[Uuid, int]]


class ConsumerWorld(GroupsWorld):
    """A coordinator of consumer groups and its surroundings."""

    def __init__(
        self, config: GroupConfig | None = None, partitions: int = 1, *, blocking: Blocking = run_here
    ) -> None:
        config = config or GroupConfig(consumer_assignment_interval_ms=0)
        super().__init__(config, partitions, blocking=blocking)

    def rack(self, rack: str) -> None:
        """Move the one broker to a rack."""
        self.publish(replace(self.image, brokers={1: Broker(1, rack, {})}))

    def group(self, group_id: str = "g") -> ConsumerGroup:
        return self.found(ConsumerGroup, group_id)

    def stored(self, group_id: str = "g") -> ConsumerGroup | None:
        """The group that a coordinator would load now."""
        changes = self.log.replay(self.groups.runtime.partition_of(group_id)).consumer_groups.get(group_id)
        if changes is None:
            return None
        group = ConsumerGroup(group_id)
        for change in changes:
            group.replay(change)
        return group

    def check_stored(self, group_id: str = "g") -> None:
        """Assert that the log holds what is in memory."""
        stored, found = self.stored(group_id), self.groups.groups.get(group_id)
        if not isinstance(found, ConsumerGroup):
            assert stored is None
            return
        assert stored is not None
        for name in (
            *("epoch", "assignment_epoch", "metadata_hash", "members", "targets", "regexes"),
            *("static_members", "classic_members", "regex_subscribers"),
        ):
            assert getattr(stored, name) == getattr(found, name), name

    async def heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        try:
            answer = self.groups.consumer_heartbeat(request, 1, Client("c", "/127.0.0.1"))
            return answer if isinstance(answer, ConsumerGroupHeartbeatResponse) else await answer
        except KafkaError as error:
            return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)


def beat(member_id: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat of the group g."""
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch, **fields)


def join(
    member_id: str, topics: Iterable[str] | None = ("t",), **fields: Any
) -> ConsumerGroupHeartbeatRequest:
    """The first heartbeat of a member."""
    return beat(
        member_id,
        0,
        rebalance_timeout_ms=REBALANCE_MS,
        subscribed_topic_names=None if topics is None else list(topics),
        topic_partitions=[],
        **fields,
    )


@dataclass(eq=False)
class SimulatedConsumer:
    """A consumer that gives up partitions before it says so.

    It says what it has when that changes.
    """

    world: ConsumerWorld
    member_id: str
    topics: tuple[str, ...] | None = ("t",)
    regex: str | None = None
    instance_id: str | None = None
    epoch: int = 0
    owned: Owned = field(default_factory=set)
    assigned: Owned = field(default_factory=set)
    """What the coordinator assigned last: `owned` follows when the consumer gets to it."""
    is_alive: bool = True
    must_tell_all: bool = True
    """Whether the next heartbeat repeats everything, since the last one had no answer."""
    last_heard: float = 0.0
    """When the coordinator last answered."""

    @property
    def claim(self) -> Claim:
        """What it would commit now."""
        return Claim(self.member_id, self.instance_id, self.epoch, frozenset(self.owned))

    async def heartbeat(self) -> ErrorCode:
        self.owned &= self.assigned  # partitions are given up before the heartbeat
        self.owned |= self.assigned
        request = beat(self.member_id, self.epoch, instance_id=self.instance_id)
        if self.epoch == 0 or self.must_tell_all:
            request.rebalance_timeout_ms = REBALANCE_MS
            request.subscribed_topic_names = None if self.topics is None else list(self.topics)
            request.subscribed_topic_regex = self.regex
        if self.epoch == 0:
            self.owned, self.assigned = set(), set()
        request.topic_partitions = _wire(self.owned)
        response = await self.world.heartbeat(request)
        error = ErrorCode(response.error_code)
        if error in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ):
            self.epoch, self.owned, self.assigned = 0, set(), set()
        elif error is ErrorCode.NONE:
            assert self.epoch <= response.member_epoch, "an epoch never goes back"
            self.epoch = response.member_epoch
            self.last_heard = self.world.clock.monotonic()
            self.must_tell_all = False
            if response.assignment is not None:
                self.assigned = {
                    (topic.topic_id, each)
                    for topic in response.assignment.topic_partitions
                    for each in topic.partitions
                }
                self.owned |= self.assigned  # what is new is free; the rest is given up later
        else:
            self.must_tell_all = True
        return error

    async def leave(self) -> ErrorCode:
        self.owned, self.assigned, self.is_alive = set(), set(), False
        epoch = -1 if self.instance_id is None else -2
        return ErrorCode(
            (await self.world.heartbeat(beat(self.member_id, epoch, instance_id=self.instance_id))).error_code
        )

    def crash(self) -> None:
        self.owned, self.assigned, self.is_alive = set(), set(), False


def _wire(owned: Owned) -> list[TopicPartitions]:
    topics: dict[Uuid, list[int]] = {}
    for topic, partition in sorted(owned):
        topics.setdefault(topic, []).append(partition)
    return [TopicPartitions(topic_id=topic, partitions=numbers) for topic, numbers in topics.items()]
