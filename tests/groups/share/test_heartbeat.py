"""ShareGroupHeartbeat: members join, get partitions and leave.

The states of the partitions are initialized first.
"""

from __future__ import annotations

import asyncio
from sys import getsizeof
from typing import Any

from kafkapy.groups.config import GroupConfig
from kafkapy.groups.coordinator import MAX_TOPIC_NAMES
from kafkapy.groups.member_memory import MemberLimits
from kafkapy.groups.member_total import NAME_BYTES
from kafkapy.groups.share.group import ShareGroupState
from kafkapy.groups.share.initialization import INITIALIZED_AT_ONCE, Initialization
from kafkapy.loop.turns import at_once
from kafkapy.protocol.errors import ErrorCode
from tests.groups.share.share_world import Member, ShareWorld


async def started(**config: Any) -> ShareWorld:
    world = ShareWorld(**config)
    await world.start()
    return world


async def test_partitions_are_assigned_once_their_states_are_initialized() -> None:
    world = await started()
    topic = world.topic("t", 2)
    member = Member(world, "m")
    assert await member.heartbeat() is ErrorCode.NONE
    assert (member.epoch, member.assigned) == (2, set())
    assert world.states.offsets == {("g", topic, 0): (-1, 2), ("g", topic, 1): (-1, 2)}
    await member.heartbeat()
    assert (member.epoch, member.assigned) == (3, {(topic, 0), (topic, 1)})
    await member.heartbeat()
    assert member.epoch == 3
    world.check()


async def test_members_share_partitions_if_there_are_more_of_them() -> None:
    world = await started()
    topic = world.topic("t", 2)
    members = [Member(world, f"m{index}") for index in range(4)]
    for _ in range(3):
        for member in members:
            await member.heartbeat()
        world.check()
    shares = [member.assigned for member in members]
    assert all(len(share) == 1 for share in shares)
    assert sorted(partition for share in shares for _, partition in share) == [0, 0, 1, 1]
    assert {place[0] for share in shares for place in share} == {topic}


async def test_a_failed_initialization_is_tried_again() -> None:
    world = await started()
    world.topic("t", 1)
    world.states.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    member = Member(world, "m")
    await member.heartbeat()
    assert world.group().state_partitions.initializing == {}
    world.states.error = ErrorCode.NONE
    await member.heartbeat()
    await member.heartbeat()
    assert len(member.assigned) == 1
    world.check()


async def test_an_initialization_without_an_answer_is_tried_again_after_a_while() -> None:
    world = await started()
    world.topic("t", 1)
    world.states.held = asyncio.Event()
    member = Member(world, "m")
    await member.heartbeat()
    world.states.held = None
    await member.heartbeat()
    assert member.assigned == set()
    await world.advance(31)
    await member.heartbeat()
    await member.heartbeat()
    assert len(member.assigned) == 1
    await world.groups.stop()


async def test_heartbeats_while_states_are_initialized_ask_for_no_others() -> None:
    """A second request, with a newer epoch, could come first: then the other one is fenced."""
    world = await started()
    world.topic("t", 1)
    world.topic("u", 1)
    world.states.held = asyncio.Event()
    one, two = Member(world, "one"), Member(world, "two", topics=("t", "u"))
    await one.heartbeat()
    await two.heartbeat()
    await one.heartbeat()
    assert len(world.states.asked) == 1
    world.states.held.set()
    await world.settle()
    assert len(world.states.asked) == 2
    for _ in range(2):
        await one.heartbeat()
        await two.heartbeat()
    assert world.group().is_complete
    assert len(one.assigned | two.assigned) == 2
    world.check()


async def test_the_search_for_states_is_made_in_turns_and_goes_through_the_topics_once() -> None:
    world = await started()
    names = tuple(f"t{number:04d}" for number in range(INITIALIZED_AT_ONCE * 3))
    for name in names:
        world.topic(name, 1)
    world.states.held = asyncio.Event()
    await Member(world, "m", topics=names).heartbeat()
    group = world.group()
    search = Initialization(group, lambda: world.groups.shares.topics, world.clock)
    found = []
    for turns in (2 * INITIALIZED_AT_ONCE, INITIALIZED_AT_ONCE):
        steps = search.find()
        for _ in range(turns):
            next(steps)
        found.append(at_once(steps))
    asked = {topic.name for topic in group.state_partitions.initializing.values()}
    assert [len(part) for part in (asked, *found)] == [INITIALIZED_AT_ONCE] * 3
    assert asked.union(*found) == set(names)
    await world.groups.stop()


async def test_new_partitions_of_a_topic_are_assigned_too() -> None:
    world = await started()
    world.topic("t", 1)
    member = Member(world, "m")
    await member.heartbeat()
    await member.heartbeat()
    world.topic("t", 3)
    await member.heartbeat()
    await member.heartbeat()
    assert {partition for _, partition in member.assigned} == {0, 1, 2}
    world.check()


async def test_a_deleted_topic_is_forgotten() -> None:
    world = await started()
    world.topic("t", 1)
    member = Member(world, "m")
    await member.heartbeat()
    await member.heartbeat()
    world.delete_topic("t")
    await world.settle()
    assert world.group().state_partitions.initialized == {}
    await member.heartbeat()
    assert member.assigned == set()
    world.check()


async def test_the_time_between_assignments_may_change_while_groups_are_there() -> None:
    world = await started(share_assignment_interval_ms=60_000)
    world.topic("t", 2)
    member = Member(world, "m")
    await member.heartbeat()
    await world.advance(2)
    await member.heartbeat()
    assert (world.group().epoch, world.group().assignment_epoch) == (3, 2)
    world.groups.configure(GroupConfig(share_assignment_interval_ms=1_000))
    await member.heartbeat()
    assert world.group().assignment_epoch == 3
    await world.groups.stop()


async def test_a_silent_member_is_removed() -> None:
    world = await started()
    world.topic("t", 2)
    one, two = Member(world, "one"), Member(world, "two")
    for _ in range(2):
        await one.heartbeat()
        await two.heartbeat()
    await world.advance(30)
    await one.heartbeat()
    await world.advance(30)
    assert world.group().members.keys() == {"one"}
    await one.heartbeat()
    assert len(one.assigned) == 2
    assert await two.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    world.check()


async def test_a_group_stays_when_its_last_member_leaves() -> None:
    world = await started()
    world.topic("t", 1)
    member = Member(world, "m")
    await member.heartbeat()
    assert await member.leave() is ErrorCode.NONE
    assert world.group().state is ShareGroupState.EMPTY
    await world.advance(8 * 24 * 3600)
    assert world.group().state is ShareGroupState.EMPTY
    assert await member.leave() is ErrorCode.UNKNOWN_MEMBER_ID


async def test_epochs_fence_members() -> None:
    world = await started()
    world.topic("t", 1)
    member = Member(world, "m")
    await member.heartbeat()
    await member.heartbeat()
    assert (await world.ask("m", 9)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert (await world.ask("m", 1)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert (await world.ask("m", 2)).error_code == ErrorCode.NONE, "the last answer may have been lost"
    assert (await world.ask("x", 3)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_the_session_timeout_is_the_brokers_setting() -> None:
    world = await started(share_session_timeout_ms=60_000, share_heartbeat_interval_ms=7_000)
    world.topic("t", 1)
    assert (await world.ask("m", 0, subscribed_topic_names=["t"])).heartbeat_interval_ms == 7_000
    await world.advance(59)
    assert "m" in world.group().members
    await world.advance(2)
    assert "m" not in world.group().members


async def test_requests_that_make_no_sense_are_refused() -> None:
    world = await started(share_max_size=1)
    world.topic("t", 1)
    for member_id, epoch, names, rack in (
        ("", 0, ["t"], None),
        ("m" * 37, 0, ["t"], None),
        ("m", 0, [], None),
        ("m", 0, None, None),
        ("m", -2, None, None),
        ("m", 0, ["t"], " "),
    ):
        answer = await world.ask(member_id, epoch, subscribed_topic_names=names, rack_id=rack)
        assert answer.error_code == ErrorCode.INVALID_REQUEST, (member_id, epoch, names, rack)
    assert (await world.ask("m", 1)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert await Member(world, "one").heartbeat() is ErrorCode.NONE
    assert await Member(world, "two").heartbeat() is ErrorCode.GROUP_MAX_SIZE_REACHED


async def test_a_refused_write_leaves_the_group_as_it_was() -> None:
    world = await started()
    world.topic("t", 1)
    member = Member(world, "m")
    await member.heartbeat()
    world.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert await Member(world, "other").heartbeat() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.log.error = ErrorCode.NONE
    assert world.group().members.keys() == {"m"}
    world.check()


async def test_a_group_comes_back_with_its_members() -> None:
    world = await started()
    topic = world.topic("t", 1)
    member = Member(world, "m")
    await member.heartbeat()
    await member.heartbeat()
    await world.restart()
    world.check()
    assert await member.heartbeat() is ErrorCode.NONE
    assert (member.epoch, member.assigned) == (3, {(topic, 0)})
    await world.advance(46)
    assert world.group().members == {}


async def test_members_name_no_more_topics_than_they_may() -> None:
    one = 3_000 + 100 * (NAME_BYTES + getsizeof("topic00001"))
    world = await started()
    limits = MemberLimits(3 * one + 10_000, for_small=10_000, small=5_000)
    world.groups.groups.members.limits = limits

    def member(member_id: str, count: int) -> Member:
        return Member(world, member_id, tuple(f"topic{number:05}" for number in range(count)))

    refused = ErrorCode.GROUP_MAX_SIZE_REACHED
    assert await member("a", MAX_TOPIC_NAMES + 1).heartbeat() is refused
    members = [member(name, 100) for name in "abc"]
    assert [await each.heartbeat() for each in members] == [ErrorCode.NONE] * 3
    assert await member("d", 100).heartbeat() is refused
    assert await member("d", 2).heartbeat() is ErrorCode.NONE, "it is small"
    assert await members[0].leave() is ErrorCode.NONE
    assert await member("e", 95).heartbeat() is ErrorCode.NONE, "another one has left"
    world.check()
