"""A member of a consumer group.

It joins, is assigned partitions, commits offsets, and leaves or vanishes.

What must hold (`GroupPromises`), through all coordinators:

    the members of one generation are assigned partitions by one leader
    a generation is never followed by a lower one
    a commit of an old generation is refused once a member has learned of a new one
    a new owner finds what was committed before its generation, or more: nothing acknowledged is lost

A coordinator that was suspended may tell an assignment or an offset of the time before, until it learns that
another one has taken its place, as in Apache Kafka. Nothing new comes of that, since it cannot commit.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from kafkapy.inter_broker.peers import PeerAddress, PeerError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkapy.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafkapy.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafkapy.protocol.topic_names import GROUP_METADATA_TOPIC
from kafkapy.virtual.world import World
from tests.promises.history import Partition
from tests.simulation.clients import BACKOFF, GroupClient

SESSION_MS: Final = 1200
REBALANCE_MS: Final = 1000

_LOST: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})


class GroupPromises:
    """What the members of one group know."""

    def __init__(self, world: World, is_led_by: Callable[[int, Partition], bool]) -> None:
        """`is_led_by` tells whether a broker is the latest leader of a partition."""
        self._world = world
        self._is_led_by = is_led_by
        self.generation = 0
        """The newest generation in which a member was assigned its partitions."""
        self.commits = 0
        self._leaders: dict[int, str] = {}
        """Who assigned the partitions of a generation."""
        self._committed: dict[Partition, dict[int, int]] = {}
        """The highest offset that was acknowledged in each generation."""

    def assigned(self, member: str, generation: int, known: int, by: str) -> None:
        """A member was told its partitions.

        `known` was the newest generation when it asked to join.
        """
        if generation < known:
            self._world.failed(f"{member} is in generation {generation}, and there was {known}")
        leader = self._leaders.setdefault(generation, by)
        if leader != by:
            self._world.failed(f"generation {generation} has assignments of {leader} and of {by}")
        self.generation = max(self.generation, generation)

    def committed(self, member: str, partition: Partition, generation: int, known: int, offset: int) -> None:
        """A commit was acknowledged; `known` was the newest generation when it was sent."""
        if generation < known:
            self._world.failed(f"{member} committed in generation {generation}, and there was {known}")
        self.commits += 1
        there = self._committed.setdefault(partition, {})
        there[generation] = max(there.get(generation, -1), offset)

    def are_known_to(self, broker: int) -> bool:
        """Whether a broker that is asked now is the latest coordinator, and knows all of this."""
        return self._is_led_by(broker, (GROUP_METADATA_TOPIC, 0))

    def before(self, partition: Partition, generation: int) -> int:
        """What an owner in this generation must find, to be asked when its request is sent."""
        there = self._committed.get(partition, {})
        return max((offset for of, offset in there.items() if of <= generation), default=-1)

    def fetched(self, member: str, partition: Partition, known: int, offset: int) -> None:
        """An owner was told the committed offset, and `known` was committed when it asked."""
        if offset < known:
            self._world.failed(f"{member} was told {offset} for {partition}, and {known} was committed")


class GroupMember(GroupClient):
    """A member through all its lives."""

    def __init__(
        self,
        world: World,
        name: str,
        addresses: Mapping[int, PeerAddress],
        group: str,
        promises: GroupPromises,
        partitions: list[Partition],
    ) -> None:
        super().__init__(world, name, addresses, group)
        self._promises = promises
        self._partitions = partitions
        self._member_id = ""
        self._generation = -1
        self._asked_latest = False
        """Whether the last request went to the latest coordinator."""
        self._owned: list[Partition] = []

    async def run(self) -> None:
        """Be a member for ever, with breaks."""
        chance = self.world.chance
        while True:
            if await self._join():
                await self._work(self.world.now + chance.random() * 4)
            if chance.random() < 0.2:
                await self._leave()
                await asyncio.sleep(chance.random())
            elif chance.random() < 0.1:  # vanish
                self._member_id = ""
                await asyncio.sleep(chance.random() * 2)

    async def _ask(self, request: Any, code: str = "error_code") -> Any:
        """The coordinator's answer; None if there is none, or the coordinator is another broker."""
        coordinator = await self.find()
        self._asked_latest = self._promises.are_known_to(coordinator)
        try:
            answer = await self.ask(coordinator, request)
        except PeerError:
            self.coordinator = None
            return None
        if ErrorCode(getattr(answer, code, 0)) in (
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ):
            self.coordinator = None
        return answer

    async def _join(self) -> bool:
        """Join once; return whether this is a member with partitions."""
        known = self._promises.generation
        protocol = JoinGroupRequestProtocol(name="any", metadata=self.name.encode())
        answer = await self._ask(
            JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                member_id=self._member_id,
                protocol_type="consumer",
                protocols=[protocol],
            )
        )
        if answer is None or answer.error_code:
            if answer is not None and answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = answer.member_id
                return False
            if answer is not None and answer.error_code in _LOST:
                self._member_id = ""
            await asyncio.sleep(BACKOFF)
            return False
        self._member_id, self._generation = answer.member_id, answer.generation_id
        assignments = []
        if answer.leader == self._member_id:
            members = sorted(each.member_id for each in answer.members)
            token = f"{self.name} at {self.world.now:.6f}"
            for number, member in enumerate(members):
                owned = self._partitions[number :: len(members)]
                data = json.dumps({"by": token, "owned": owned}).encode()
                assignments.append(SyncGroupRequestAssignment(member_id=member, assignment=data))
        answer = await self._ask(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=self._generation,
                member_id=self._member_id,
                protocol_type="consumer",
                protocol_name="any",
                assignments=assignments,
            )
        )
        if answer is None or answer.error_code:
            if answer is not None and answer.error_code in _LOST:
                self._member_id = ""
            await asyncio.sleep(BACKOFF)
            return False
        told = json.loads(answer.assignment) if answer.assignment else None
        if told is None:  # the leader did not know this member
            return False
        self._owned = [(topic, index) for topic, index in told["owned"]]
        self.world.note(self.name, "is in generation", self._generation, "with", self._owned)
        known = known if self._asked_latest else 0
        self._promises.assigned(self.name, self._generation, known, told["by"])
        return True

    async def _work(self, until: float) -> None:
        """Commit offsets until this is not a member of the generation any more."""
        positions = {}
        for partition in self._owned:
            found = await self._fetch(partition)
            if found is None:
                return
            positions[partition] = max(found, 0)
        while self.world.now < until:
            await asyncio.sleep(self.world.chance.random() * 0.4)
            answer = await self._ask(
                HeartbeatRequest(
                    group_id=self.group, generation_id=self._generation, member_id=self._member_id
                )
            )
            if answer is None or answer.error_code:
                if answer is not None and answer.error_code in _LOST:
                    self._member_id = ""
                if self.world.chance.random() < 0.7:  # or commit first, as consumers may
                    return
            if positions:
                partition = self.world.chance.choice(self._owned)
                positions[partition] += self.world.chance.randrange(1, 5)
                if not await self._commit(partition, positions[partition]):
                    return

    async def _commit(self, partition: Partition, offset: int) -> bool:
        topic, index = partition
        await self.leader_of(partition)  # for the id of the topic
        known = self._promises.generation
        one = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
        answer = await self._ask(
            OffsetCommitRequest(
                group_id=self.group,
                generation_id_or_member_epoch=self._generation,
                member_id=self._member_id,
                topics=[OffsetCommitRequestTopic(name=topic, topic_id=self.id_of(topic), partitions=[one])],
            )
        )
        if answer is None:
            return False
        code = ErrorCode(answer.topics[0].partitions[0].error_code)
        if code:
            self.coordinator = None
            return False
        self.world.note(self.name, "committed", topic, index, offset)
        self._promises.committed(self.name, partition, self._generation, known, offset)
        return True

    async def _fetch(self, partition: Partition) -> int | None:
        topic, index = partition
        await self.leader_of(partition)
        known = self._promises.before(partition, self._generation)
        wanted = OffsetFetchRequestTopics(name=topic, topic_id=self.id_of(topic), partition_indexes=[index])
        answer = await self._ask(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=self.group, topics=[wanted])])
        )
        if answer is None:
            return None
        told = answer.groups[0]
        if told.error_code or told.topics[0].partitions[0].error_code:
            self.coordinator = None
            return None
        offset: int = told.topics[0].partitions[0].committed_offset
        if self._asked_latest:
            self._promises.fetched(self.name, partition, known, offset)
        return offset

    async def _leave(self) -> None:
        if self._member_id:
            members = [MemberIdentity(member_id=self._member_id)]
            await self._ask(LeaveGroupRequest(group_id=self.group, members=members))
            self._member_id = ""
