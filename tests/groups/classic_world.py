"""A world of classic groups: the requests of their members, and commits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from kafkapy.coordination.partitioning import partition_of
from kafkapy.groups.classic.group import ClassicGroup
from kafkapy.groups.classic.join import Joining
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.offsets.committed_offset import decode_offset, encode_offset
from kafkapy.metadata.image import Topic
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.join_group import JoinGroupResponse
from kafkapy.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kafkapy.protocol.records import Record, build_batch, read_header
from kafkapy.protocol.types import TopicPartition
from tests.groups.group_world import subscription
from tests.groups.groups_world import GroupsWorld

CONFIG = GroupConfig(initial_rebalance_delay_ms=0)


class ClassicWorld(GroupsWorld):
    """A coordinator of classic groups and its surroundings."""

    def __init__(self, config: GroupConfig = CONFIG) -> None:
        super().__init__(config, partitions=4)

    async def time_passes(self, seconds: float) -> None:
        """And what falls due is done."""
        self.timers.advance(seconds)
        while reading := tuple(self.groups.runtime.loads):
            await asyncio.wait(reading)
        self.timers.advance(0)

    def write(self, group: str, key: bytes, value: bytes) -> None:
        """Put a record into the group's partition."""
        batch = build_batch([Record(-1, 0, key, value, [])])
        self.log.append(partition_of(group, 4), read_header(batch), memoryview(batch))

    def commit(self, *offsets: tuple[TopicPartition, int], group: str = "g") -> list[ErrorCode]:
        """Commit from outside of the group; the list gets the answer."""
        self.groups.check_commit(group, "", None, -1)
        answers: list[ErrorCode] = []
        now = self.clock.now_ms()
        outcome = self.groups.writes.commit(
            group, {key: encode_offset(offset, 3, "m", now) for key, offset in offsets}
        )
        self.groups.writes.report(outcome, answers.append)
        return answers

    def commit_to(self, topic: Topic, key: TopicPartition, offset: int) -> None:
        """Commit an offset of this very topic."""
        committed = encode_offset(offset, 3, "m", self.clock.now_ms(), topic_id=topic.id)
        self.groups.writes.commit("g", {key: committed})

    def committed(self, group: str = "g") -> dict[TopicPartition, int]:
        return {key: decode_offset(each).offset for key, each in self.groups.offsets.of_group(group).items()}

    async def join(self, member_id: str = "", *, group: str = "g", topics: Iterable[str] = ("t",)) -> str:
        """A lone member of a group, joined and synced; its id."""
        waiting = self.groups.join_group(group, joining(member_id, topics))
        self.timers.advance(0.1)
        answer = waiting if isinstance(waiting, JoinGroupResponse) else await waiting
        assert answer.error_code == ErrorCode.NONE
        request = SyncGroupRequest(
            group_id=group,
            generation_id=answer.generation_id,
            member_id=answer.member_id,
            assignments=[SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"all")],
        )
        synced = self.groups.sync_group(request)
        response = synced if isinstance(synced, SyncGroupResponse) else await synced
        assert response.assignment == b"all"
        return answer.member_id

    def heartbeat(self, member_id: str, group: str = "g") -> ErrorCode:
        known = self.groups.groups.get(group)
        generation = known.generation if isinstance(known, ClassicGroup) else 0
        return self.groups.heartbeat(
            HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)
        )


def another_group() -> str:
    """A group of another partition than that of g."""
    return next(f"g{n}" for n in range(100) if partition_of(f"g{n}", 4) != partition_of("g", 4))


def joining(
    member_id: str = "", topics: Iterable[str] = ("t",), session_ms: int = 10_000, version: int = 3
) -> Joining:
    return Joining(
        version=version,
        client_id="c",
        client_host="/127.0.0.1",
        member_id=member_id,
        group_instance_id=None,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=(("range", subscription(*topics)),),
        reason="a test",
    )
