"""Classic and consumer protocols in one group.

Groups are converted in both directions, and have members of both kinds.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import pytest

from kafkapy.groups.classic.group import ClassicGroup
from kafkapy.groups.classic.join import Joining
from kafkapy.groups.classic.member import Protocols
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.consumer import records
from kafkapy.groups.consumer.conversion import classic_assignment, read_assignment, read_subscription
from kafkapy.groups.consumer.group import ConsumerGroup
from kafkapy.groups.consumer.member import ClassicProtocol, ConsumerMember
from kafkapy.groups.modern.change import encode_change
from kafkapy.protocol.codec import encode
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.join_group import JoinGroupResponse
from kafkapy.protocol.messages.leave_group import MemberIdentity
from kafkapy.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kafkapy.protocol.records import Record, build_batch, read_header
from kafkapy.protocol.types import Uuid
from tests.groups.consumer.consumer_world import Claim, ConsumerWorld, SimulatedConsumer, beat, join
from tests.groups.consumer.simulated_commits import SimulatedCommits

SESSION_MS = 45_000


def subscription(*topics: str) -> bytes:
    return b"\x00\x01" + encode(ConsumerProtocolSubscription(topics=list(topics)), 1)


@dataclass(eq=False)
class ClassicConsumer:
    """A consumer with the classic protocol, which gives up everything before it joins again."""

    world: ConsumerWorld
    topics: tuple[str, ...] = ("t",)
    instance_id: str | None = None
    member_id: str = ""
    generation: int = -1
    owned: set[tuple[Uuid, int]] = field(default_factory=set)
    is_alive: bool = True
    must_join: bool = True
    is_leader: bool = False
    joining: asyncio.Future[JoinGroupResponse] | None = None
    syncing: asyncio.Future[SyncGroupResponse] | None = None
    others: dict[str, bytes] = field(default_factory=dict)

    @property
    def claim(self) -> Claim:
        """What it would commit now."""
        return Claim(self.member_id, self.instance_id, self.generation, frozenset(self.owned))

    def poll(self) -> None:
        """Do the next thing, without waiting."""
        if self.joining is not None:
            if self.joining.done():
                answer, self.joining = self.joining.result(), None
                self._joined(answer)
        elif self.syncing is not None:
            if self.syncing.done():
                synced, self.syncing = self.syncing.result(), None
                self._synced(synced)
        elif self.must_join:
            self._join()
        else:
            error = self.world.groups.heartbeat(
                HeartbeatRequest(
                    group_id="g",
                    generation_id=self.generation,
                    member_id=self.member_id,
                    group_instance_id=self.instance_id,
                )
            )
            self._failed(error)

    def _join(self) -> None:
        self.owned = set()
        answer = self.world.groups.join_group(
            "g",
            Joining(
                version=9,
                client_id="c",
                client_host="/127.0.0.1",
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=60_000,
                protocol_type="consumer",
                protocols=(("range", subscription(*self.topics)),),
                reason="a test",
            ),
        )
        if isinstance(answer, JoinGroupResponse):
            self._joined(answer)
        else:
            self.joining = answer

    def _joined(self, answer: JoinGroupResponse) -> None:
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return
        if answer.error_code:
            self._failed(ErrorCode(answer.error_code))
            return
        self.member_id, self.generation, self.must_join = answer.member_id, answer.generation_id, False
        members = {member.member_id: member.metadata for member in answer.members}
        request = SyncGroupRequest(
            group_id="g",
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=self._assign(members) if answer.leader == self.member_id else [],
        )
        synced = self.world.groups.sync_group(request)
        if isinstance(synced, SyncGroupResponse):
            self._synced(synced)
        else:
            self.syncing = synced

    def _assign(self, members: dict[str, bytes]) -> list[SyncGroupRequestAssignment]:
        """What the leader of a classic group does.

        Partition n goes to member n modulo their number.
        """
        view = self.world.groups.consumers.topics
        given: dict[str, dict[Uuid, list[int]]] = {member_id: {} for member_id in members}
        for name, topic in self.world.image.topics.items():
            takers = [each for each, meta in members.items() if name in read_subscription(bytes(meta)).topics]
            for partition in range(len(topic.partitions) if takers else 0):
                taker = takers[partition % len(takers)]
                given[taker].setdefault(topic.id, []).append(partition)
        return [
            SyncGroupRequestAssignment(
                member_id=member_id, assignment=classic_assignment(found, bytes(members[member_id]), view)
            )
            for member_id, found in given.items()
        ]

    def _synced(self, answer: SyncGroupResponse) -> None:
        if answer.error_code:
            self._failed(ErrorCode(answer.error_code))
            return
        topics = self.world.image.topics
        assignment = read_assignment(bytes(answer.assignment))
        self.owned = {
            (topics[each.topic].id, partition)
            for each in assignment.assigned_partitions
            if each.topic in topics
            for partition in each.partitions
        }

    def _failed(self, error: ErrorCode) -> None:
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID):
            if error is not ErrorCode.ILLEGAL_GENERATION:
                self.member_id = ""
            self.owned, self.must_join = set(), True
        elif error is not ErrorCode.NONE:
            self.must_join = True

    def leave(self) -> None:
        self.owned, self.is_alive = set(), False
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        self.world.groups.leave_group("g", [identity])

    def crash(self) -> None:
        self.owned, self.is_alive = set(), False


@pytest.fixture
async def world() -> AsyncIterator[ConsumerWorld]:
    world = ConsumerWorld(_config())
    await world.start()
    world.topic("t", 4)
    yield world
    await world.groups.stop()


def _config(**others: bool) -> GroupConfig:
    return GroupConfig(
        consumer_assignment_interval_ms=0,
        initial_rebalance_delay_ms=0,
        offsets_retention_check_interval_ms=10**12,
        **others,  # type: ignore[arg-type]
    )


async def stable(world: ConsumerWorld, *consumers: ClassicConsumer | SimulatedConsumer) -> None:
    """Let consumers follow the protocol for a while."""
    for _ in range(12):
        for consumer in consumers:
            if isinstance(consumer, ClassicConsumer):
                consumer.poll()
            else:
                await consumer.heartbeat()
        await world.advance(0.1)


async def test_a_classic_group_becomes_a_consumer_group_and_a_classic_group_again(
    world: ConsumerWorld,
) -> None:
    classic, consumer = ClassicConsumer(world), SimulatedConsumer(world, "m")
    await stable(world, classic)
    assert len(classic.owned) == 4
    generation = classic.generation
    await consumer.heartbeat()
    assert consumer.owned == set(), "the classic member has not given up anything yet"
    assert world.group().epoch > generation
    await stable(world, classic, consumer)
    assert (len(classic.owned), len(consumer.owned)) == (2, 2)
    world.check_stored()
    await consumer.leave()
    assert isinstance(world.groups.groups["g"], ClassicGroup)
    world.check_stored()
    await stable(world, classic)
    assert len(classic.owned) == 4
    assert classic.generation > generation


async def test_a_classic_member_that_comes_before_the_next_assignment_syncs_without_partitions() -> None:
    world = ConsumerWorld(GroupConfig(consumer_assignment_interval_ms=1_000))
    await world.start()
    world.topic("t", 4)
    consumer, classic = SimulatedConsumer(world, "m"), ClassicConsumer(world)
    await consumer.heartbeat()
    for _ in range(2):  # it gets an id, and joins
        classic.poll()
    assert (classic.must_join, classic.generation, classic.owned) == (False, 2, set()), "the last assignment"
    assert (world.group().epoch, world.group().assignment_epoch) == (3, 2)
    await world.advance(1.0)
    await stable(world, classic, consumer)
    assert (len(classic.owned), len(consumer.owned)) == (2, 2)
    await world.groups.stop()


async def test_the_kind_of_a_group_outlives_its_coordinator(world: ConsumerWorld) -> None:
    classic, consumer = ClassicConsumer(world), SimulatedConsumer(world, "m")
    await stable(world, classic)
    await stable(world, classic, consumer)
    owned = classic.owned, consumer.owned
    await world.restart()
    await stable(world, classic, consumer)
    assert (classic.owned, consumer.owned) == owned
    await consumer.leave()
    await world.restart()
    assert isinstance(world.groups.groups["g"], ClassicGroup)
    await stable(world, classic)
    assert len(classic.owned) == 4


async def test_a_static_member_changes_its_protocol_both_ways(world: ConsumerWorld) -> None:
    before = ClassicConsumer(world, instance_id="i")
    await stable(world, before)
    between = SimulatedConsumer(world, "m", instance_id="i")
    await between.heartbeat()
    assert list(world.group().members) == ["m"]
    assert len(between.owned) == 4
    after = ClassicConsumer(world, instance_id="i")
    await stable(world, after)
    assert isinstance(world.groups.groups["g"], ClassicGroup)
    assert len(after.owned) == 4


@pytest.mark.parametrize(("upgrades", "downgrades"), [(False, True), (False, False)])
async def test_a_policy_may_forbid_the_upgrade(upgrades: bool, downgrades: bool) -> None:
    world = ConsumerWorld(_config(upgrades=upgrades, downgrades=downgrades))
    await world.start()
    classic = ClassicConsumer(world)
    await stable(world, classic)
    assert (await world.heartbeat(join("m"))).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert isinstance(world.groups.groups["g"], ClassicGroup)
    classic.leave()
    assert (await world.heartbeat(join("m"))).error_code == ErrorCode.NONE, "an empty group may always change"
    await world.groups.stop()


async def test_a_policy_may_forbid_the_downgrade() -> None:
    world = ConsumerWorld(_config(downgrades=False))
    await world.start()
    world.topic("t", 2)
    classic, consumer = ClassicConsumer(world), SimulatedConsumer(world, "m")
    await stable(world, classic, consumer)
    await consumer.leave()
    await stable(world, classic)
    assert isinstance(world.groups.groups["g"], ConsumerGroup)
    assert len(classic.owned) == 2
    await world.groups.stop()


RANGE, ROUND_ROBIN = (("range", subscription("t")),), (("roundrobin", subscription("t")),)
UNREADABLE = (("range", b""),)


@pytest.mark.parametrize("others", [(RANGE, ROUND_ROBIN), (RANGE * 2, ROUND_ROBIN), (UNREADABLE,)])
async def test_members_of_which_no_classic_group_can_be_made_remain_a_consumer_group(
    world: ConsumerWorld, others: Sequence[Protocols], caplog: pytest.LogCaptureFixture
) -> None:
    late, leaving = SimulatedConsumer(world, "late"), SimulatedConsumer(world, "leaving")
    await stable(world, late, leaving)
    for index, protocols in enumerate(others):
        store_classic_member(world, f"c{index}", protocols)
    await world.restart()
    assert await leaving.leave() is ErrorCode.NONE
    for _ in range(2):
        await world.advance(30)
        for index in range(len(others)):
            request = HeartbeatRequest(group_id="g", generation_id=2, member_id=f"c{index}")
            assert world.groups.heartbeat(request) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.group().members.keys() == {f"c{index}" for index in range(len(others))}
    assert "Group g stays a consumer group: " in caplog.text
    world.check_stored()


async def test_a_stored_member_that_supports_no_classic_protocol_has_to_join_again(
    world: ConsumerWorld, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = SimulatedConsumer(world, "m")
    await stable(world, consumer)
    store_classic_member(world, "c", ())
    await world.restart()
    await stable(world, consumer)
    assert len(consumer.owned) == 4
    request = HeartbeatRequest(group_id="g", generation_id=2, member_id="c")
    assert world.groups.heartbeat(request) is ErrorCode.UNKNOWN_MEMBER_ID
    assert "a member with the classic protocol supports none" in caplog.text
    await world.advance(50)
    assert not world.group().members


def store_classic_member(world: ConsumerWorld, member_id: str, protocols: Protocols) -> None:
    """Add the records of a member to the log.

    It is as if the member had come to the group with its first epoch.
    """
    member = ConsumerMember(
        member_id,
        epoch=2,
        rebalance_timeout_ms=300_000,
        topic_names=frozenset("t"),
        classic=ClassicProtocol(SESSION_MS, protocols),
    )
    for change in (records.member_metadata("g", member), records.current_assignment("g", member)):
        batch = build_batch([Record(-1, 0, *encode_change(change), [])])
        world.log.append(0, read_header(batch), memoryview(batch))


async def test_an_assignor_that_says_more_than_partitions_forbids_the_upgrade(world: ConsumerWorld) -> None:
    await stable(world, ClassicConsumer(world))
    group = world.groups.groups["g"]
    assert isinstance(group, ClassicGroup)
    (member,) = group.members.values()
    assignment = ConsumerProtocolAssignment(user_data=b"something")
    member.assignment = b"\x00\x00" + encode(assignment, 0)
    refused = await world.heartbeat(join("m"))
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "custom assignor" in (refused.error_message or "")


async def test_a_refused_write_leaves_a_classic_group_as_it_was(world: ConsumerWorld) -> None:
    classic = ClassicConsumer(world)
    await stable(world, classic)
    group = world.groups.groups["g"]
    world.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await world.heartbeat(join("m"))).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.log.error = ErrorCode.NONE
    assert world.groups.groups["g"] is group
    classic.poll()
    assert not classic.must_join


async def test_a_consumer_groups_heartbeat_without_a_group_is_refused(world: ConsumerWorld) -> None:
    await stable(world, ClassicConsumer(world))
    for request in (beat("m", 3), beat("m", -1)):
        assert (await world.heartbeat(request)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("classic", "seed"), [*((0.5, seed) for seed in range(6)), *((1.0, seed) for seed in range(6, 10))]
)
async def test_members_never_share_a_partition_nor_commit_for_each_other(classic: float, seed: int) -> None:
    """`classic` is the share of members with the classic protocol.

    Without others the group is a classic one.
    """
    rng, ids = random.Random(seed), itertools.count()
    world = ConsumerWorld(_config())
    await world.start()
    world.topic("t", 5)
    world.topic("u", 2)
    consumers: list[ClassicConsumer | SimulatedConsumer] = []
    commits = SimulatedCommits(world, rng, ("t", "u"))

    def check() -> None:
        owned = [each for consumer in consumers if consumer.is_alive for each in consumer.owned]
        assert len(owned) == len(set(owned)), "no partition is owned by two members"
        group = world.groups.groups.get("g")
        if isinstance(group, (ConsumerGroup, ClassicGroup)):
            group.check()

    async def act(consumer: ClassicConsumer | SimulatedConsumer) -> None:
        if isinstance(consumer, ClassicConsumer):
            consumer.poll()
        else:
            await consumer.heartbeat()
        check()

    for step in range(1200):
        alive = [consumer for consumer in consumers if consumer.is_alive]
        roll = rng.random()
        if roll < 0.10 and len(alive) < 6:
            topics = rng.choice((("t",), ("t", "u"), ("u",)))
            if rng.random() < classic:
                consumers.append(ClassicConsumer(world, topics))
            else:
                consumers.append(SimulatedConsumer(world, f"m{next(ids)}", topics))
        elif roll < 0.15 and alive:
            consumer = rng.choice(alive)
            commits.goes(consumer)
            if isinstance(consumer, ClassicConsumer):
                consumer.leave()
            else:
                await consumer.leave()
        elif roll < 0.17 and alive:
            consumer = rng.choice(alive)
            commits.goes(consumer)
            consumer.crash()
        elif roll < 0.90 and alive:
            await act(rng.choice(alive))
        else:
            await world.advance(rng.choice((0.05, 0.5)))
        check()
        commits.somebody_commits(consumer for consumer in consumers if consumer.is_alive)
        if step % 100 == 99:
            world.check_stored()
            commits.check()
            for _ in range(40):
                for consumer in consumers:
                    if consumer.is_alive:
                        await act(consumer)
                await world.advance(3.0)
                check()
            living = [consumer for consumer in consumers if consumer.is_alive]
            names = {name for consumer in living for name in consumer.topics or ()}
            wanted = sum(len(world.image.topics[name].partitions) for name in names)
            assert sum(len(consumer.owned) for consumer in living) == wanted, "nothing is stranded"
    assert min(commits.accepted, commits.refused) > 60
    await world.groups.stop()
