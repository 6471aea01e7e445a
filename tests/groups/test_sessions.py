"""Heartbeats, sessions and leaving."""

from __future__ import annotations

from kafkapy.groups.classic.group import GroupState
from kafkapy.groups.config import GroupConfig
from kafkapy.protocol.errors import ErrorCode
from tests.groups.group_world import World


def test_a_member_that_is_silent_for_its_session_timeout_is_out() -> None:
    world = World()
    leader, follower = world.stable(2, session_ms=10_000)
    world.advance(6)
    assert world.heartbeat(leader) is ErrorCode.NONE
    world.advance(4.1)
    assert set(world.group.members) == {leader}
    assert world.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat(follower) is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_keep_a_member_for_as_long_as_they_come() -> None:
    world = World()
    (member_id,) = world.stable(session_ms=10_000)
    for _ in range(100):
        world.advance(9.9)
        assert world.heartbeat(member_id) is ErrorCode.NONE


def test_heartbeats_arm_no_timers() -> None:
    world = World()
    (member_id,) = world.stable(session_ms=10_000)
    before = world.timers.pending
    for _ in range(1000):
        world.advance(0.001)
        world.heartbeat(member_id)
    assert world.timers.pending == before == 1


def test_a_heartbeat_of_another_generation_is_refused() -> None:
    world = World()
    (member_id,) = world.stable()
    assert world.heartbeat(member_id, generation=2) is ErrorCode.ILLEGAL_GENERATION


def test_a_member_that_waits_for_the_others_needs_no_heartbeats() -> None:
    world = World()
    leader, slow = world.stable(2, session_ms=10_000, rebalance_ms=60_000)
    waiting = world.join(leader, session_ms=10_000, rebalance_ms=60_000)
    for _ in range(5):
        world.advance(9)
        world.heartbeat(slow)
    assert waiting.joined is None
    world.join(slow, session_ms=10_000, rebalance_ms=60_000)
    assert waiting.error is ErrorCode.NONE
    world.advance(10.1)
    assert not world.group.members, "but it does again once it has its answer"


def test_a_new_member_that_waits_too_long_is_told_to_join_again() -> None:
    world = World()
    leader, _ = world.stable(2, session_ms=1_000_000, rebalance_ms=1_000_000)
    newcomer = world.join(world.new_id(rebalance_ms=1_000_000), rebalance_ms=1_000_000)
    world.join(leader, rebalance_ms=1_000_000)
    world.advance(300.1)
    assert newcomer.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(world.group.members) == 2


def test_a_group_is_empty_when_its_last_member_leaves() -> None:
    world = World()
    (member_id,) = world.stable()
    assert world.leave(member_id) == [ErrorCode.NONE]
    assert world.group.state is GroupState.EMPTY
    assert world.group.generation == 2
    assert world.timers.pending == 0


def test_leaving_starts_a_rebalance_of_the_others() -> None:
    world = World()
    leader, follower = world.stable(2)
    assert world.leave(leader) == [ErrorCode.NONE]
    assert world.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS
    replies = world.join(follower)
    assert replies.joined is not None
    assert replies.joined.leader == follower


def test_several_members_leave_with_one_rebalance() -> None:
    world = World(GroupConfig(initial_rebalance_delay_ms=0))
    ids = world.stable(4)
    assert world.leave(ids[0], "nobody", ids[2]) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    ]
    for member_id in (ids[1], ids[3]):
        world.join(member_id)
    assert world.group.generation == 2


def test_a_pending_id_that_leaves_a_stable_group_starts_no_rebalance() -> None:
    world = World()
    world.stable()
    pending = world.new_id()
    assert world.leave(pending) == [ErrorCode.NONE]
    assert world.group.state is GroupState.STABLE


def test_a_member_that_leaves_while_it_waits_is_answered() -> None:
    world = World()
    leader, follower = world.stable(2)
    waiting = world.join(leader)
    world.leave(leader)
    assert waiting.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.join(follower).error is ErrorCode.NONE


def test_a_restarted_coordinator_knows_the_members_and_their_assignments() -> None:
    world = World()
    leader, follower = world.stable(2)
    world.restart()
    assert world.group.state is GroupState.STABLE
    assert world.group.leader == leader
    assert world.heartbeat(leader) is world.heartbeat(follower) is ErrorCode.NONE
    again = world.sync(follower)
    assert again.synced is not None
    assert again.synced.assignment == follower.encode()


def test_a_restarted_coordinator_gives_members_one_session_to_be_heard_of() -> None:
    world = World()
    leader, _ = world.stable(2, session_ms=10_000)
    world.restart()
    world.advance(9)
    world.heartbeat(leader)
    world.advance(1.1)
    assert set(world.group.members) == {leader}


def test_a_group_whose_last_member_leaves_does_not_wait_for_an_id_that_is_pending() -> None:
    world = World()
    (member_id,) = world.stable()
    pending = world.new_id()
    world.leave(member_id)
    world.advance(0)
    assert world.group.state is GroupState.EMPTY
    world.join(pending)
    world.settle()
    assert world.group.leader == pending
