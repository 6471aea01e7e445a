"""A coordinator with a log in memory, a share coordinator and members.

The share coordinator is in memory, and members follow the protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkapy.groups.config import GroupConfig
from kafkapy.groups.modern.heartbeats import Client
from kafkapy.groups.share.group import ShareGroup
from kafkapy.groups.share.persister import StateSummary
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kafkapy.protocol.types import TopicPartition, Uuid
from tests.groups.groups_world import GroupsWorld
from tests.groups.memory_log import Blocking, run_here

Owned = set[tuple[Uuid, int]]


class MemoryStates:
    """A StateKeeper: the start offset of each share partition, and an error on demand."""

    def __init__(self) -> None:
        self.offsets: dict[tuple[str, Uuid, int], tuple[int, int]] = {}
        """Start offset and state epoch."""
        self.error: ErrorCode = ErrorCode.NONE
        self.held: asyncio.Event | None = None
        """What requests wait for."""
        self.asked: list[int] = []
        """The state epoch of each request to initialize."""

    async def initialize(
        self, group_id: str, state_epoch: int, offsets: Mapping[Uuid, Mapping[int, int]]
    ) -> dict[tuple[Uuid, int], KafkaError]:
        places = [(topic, each) for topic, found in offsets.items() for each in found]
        self.asked.append(state_epoch)
        if self.held is not None:
            await self.held.wait()
        if self.error:
            return {place: KafkaError(self.error) for place in places}
        for topic, each in places:
            self.offsets[group_id, topic, each] = offsets[topic][each], state_epoch
        return {}

    async def delete(
        self, group_id: str, partitions: Mapping[Uuid, Collection[int]]
    ) -> dict[tuple[Uuid, int], KafkaError]:
        places = [(topic, each) for topic, found in partitions.items() for each in found]
        if self.error:
            return {place: KafkaError(self.error) for place in places}
        for place in places:
            self.offsets.pop((group_id, *place), None)
        return {}

    async def summaries(
        self, group_id: str, partitions: Mapping[Uuid, Collection[int]]
    ) -> dict[tuple[Uuid, int], StateSummary | KafkaError]:
        return {
            (topic, each): StateSummary(self.offsets.get((group_id, topic, each), (-1, 0))[0], 0, 0)
            for topic, found in partitions.items()
            for each in found
        }

    async def end_offsets(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int | ErrorCode]:
        return dict.fromkeys(partitions, 100)


class ShareWorld(GroupsWorld):
    """A coordinator of share groups and its surroundings."""

    def __init__(self, *, blocking: Blocking = run_here, **config: Any) -> None:
        self.states = MemoryStates()
        config = {"share_assignment_interval_ms": 0, **config}
        super().__init__(GroupConfig(**config), share_state=self.states, blocking=blocking)

    def group(self) -> ShareGroup:
        return self.found(ShareGroup)

    def check(self) -> None:
        """Assert the invariants, and that the log holds what is in memory."""
        found = self.groups.groups.get("g")
        changes = self.log.replay(0).share_groups.get("g")
        if not isinstance(found, ShareGroup):
            assert changes is None
            return
        found.check()
        stored = ShareGroup("g")
        for change in changes or ():
            stored.replay(change)
        for name in ("epoch", "assignment_epoch", "metadata_hash", "members", "targets", "state_partitions"):
            assert getattr(stored, name) == getattr(found, name), name

    async def ask(self, member_id: str, epoch: int, **fields: Any) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch, **fields)
        try:
            answer = self.groups.share_heartbeat(request, Client("c", "/127.0.0.1"))
        except KafkaError as error:
            return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
        response = answer if isinstance(answer, ShareGroupHeartbeatResponse) else await answer
        await self.settle()
        return response


@dataclass(eq=False)
class Member:
    """A member that follows its assignment."""

    world: ShareWorld
    member_id: str
    topics: tuple[str, ...] = ("t",)
    epoch: int = 0
    assigned: Owned = field(default_factory=set)
    must_tell_all: bool = True
    last_heard: float = 0.0

    async def heartbeat(self) -> ErrorCode:
        names = list(self.topics) if self.epoch == 0 or self.must_tell_all else None
        response = await self.world.ask(self.member_id, self.epoch, subscribed_topic_names=names)
        error = ErrorCode(response.error_code)
        if error in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ):
            self.epoch, self.assigned = 0, set()
        elif error is ErrorCode.NONE:
            assert self.epoch <= response.member_epoch, "an epoch never goes back"
            self.epoch, self.must_tell_all = response.member_epoch, False
            self.last_heard = self.world.clock.monotonic()
            if response.assignment is not None:
                self.assigned = {
                    (topic.topic_id, each)
                    for topic in response.assignment.topic_partitions
                    for each in topic.partitions
                }
        else:
            self.must_tell_all = True
        return error

    async def leave(self) -> ErrorCode:
        return ErrorCode((await self.world.ask(self.member_id, -1)).error_code)
