"""SyncGroup: how assignments are stored and handed out."""

from __future__ import annotations

import pytest

from kafkapy.groups.classic.group import GroupState
from kafkapy.groups.classic.records import decode_group_value
from kafkapy.groups.classic.sync import REFUSAL_SECONDS
from kafkapy.protocol.errors import ErrorCode
from tests.groups.group_world import World, subscription


def completing(world: World, count: int = 2) -> list[str]:
    """A group that waits for its leader's assignment; the leader first."""
    ids = [world.new_id() for _ in range(count)]
    for member_id in ids:
        world.join(member_id)
    world.settle()
    assert world.group.state is GroupState.COMPLETING_REBALANCE
    return ids


def test_members_wait_for_the_leaders_assignment() -> None:
    world = World()
    leader, follower = completing(world)
    waiting = world.sync(follower)
    assert waiting.synced is None
    led = world.sync(leader, assignments={leader: b"one", follower: b"two"})
    assert led.synced is not None
    assert waiting.synced is not None
    assert (led.synced.assignment, waiting.synced.assignment) == (b"one", b"two")
    assert waiting.synced.protocol_type == "consumer"
    assert waiting.synced.protocol_name == "range"
    assert world.group.state is GroupState.STABLE


def test_the_assignment_is_stored_before_anybody_gets_it() -> None:
    world = World()
    leader, follower = completing(world)
    waiting = world.sync(follower)
    world.store.hold = True
    led = world.sync(leader, assignments={leader: b"one", follower: b"two"})
    assert led.synced is None
    assert waiting.synced is None
    assert world.group.state is GroupState.COMPLETING_REBALANCE
    stored = decode_group_value(world.store.written[-1][1])
    assert {each.member_id: bytes(each.assignment) for each in stored.members} == {
        leader: b"one",
        follower: b"two",
    }
    world.release()
    assert waiting.error is led.error is ErrorCode.NONE


def test_a_member_the_leader_forgot_gets_an_empty_assignment() -> None:
    world = World()
    leader, follower = completing(world)
    waiting = world.sync(follower)
    world.sync(leader, assignments={leader: b"all", "somebody else": b"x"})
    assert waiting.synced is not None
    assert waiting.synced.assignment == b""
    assert waiting.error is ErrorCode.NONE


def test_an_assignment_that_cannot_be_stored_sends_everybody_back() -> None:
    world = World()
    leader, follower = completing(world)
    waiting = world.sync(follower)
    world.store.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    led = world.sync(leader, assignments={leader: b"x"})
    assert led.error is waiting.error is None, "clients that join again at once would do nothing else"
    world.advance(REFUSAL_SECONDS)
    assert led.error is waiting.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.group.state is GroupState.PREPARING_REBALANCE
    world.store.error = ErrorCode.NONE
    for member_id in (leader, follower):
        world.join(member_id)
    world.assign()
    assert world.group.generation == 2


def test_a_coordinator_that_moves_says_so_at_once() -> None:
    world = World()
    leader, follower = completing(world)
    waiting = world.sync(follower)
    world.store.error = ErrorCode.NOT_COORDINATOR
    led = world.sync(leader, assignments={leader: b"x"})
    assert led.error is waiting.error is ErrorCode.NOT_COORDINATOR


def test_a_group_that_rebalances_before_a_refusal_is_answered_goes_on() -> None:
    world = World()
    leader, follower = completing(world)
    world.store.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    led = world.sync(leader, assignments={leader: b"x"})
    world.store.error = ErrorCode.NONE
    world.join(follower, protocols=(("range", subscription("other")),))
    assert led.error is ErrorCode.REBALANCE_IN_PROGRESS
    world.join(leader)
    world.advance(REFUSAL_SECONDS)
    world.assign()
    assert world.group.generation == 2


def test_an_assignment_whose_generation_is_over_when_it_is_stored_is_dropped() -> None:
    world = World()
    leader, follower = completing(world)
    world.store.hold = True
    led = world.sync(leader, assignments={leader: b"x"})
    world.join(follower, protocols=(("range", subscription("other")),))
    assert led.error is ErrorCode.REBALANCE_IN_PROGRESS
    world.release()
    assert world.group.state is GroupState.PREPARING_REBALANCE


def test_a_leader_that_repeats_itself_gets_one_assignment() -> None:
    world = World()
    (leader,) = completing(world, 1)
    world.store.hold = True
    given_up = world.sync(leader, assignments={leader: b"first"})
    repeated = world.sync(leader, assignments={leader: b"second"})
    assert given_up.error is ErrorCode.REBALANCE_IN_PROGRESS
    world.release()
    assert not world.store.held, "what is stored last is what is handed out"
    assert repeated.synced is not None
    assert repeated.synced.assignment == world.group.members[leader].assignment == b"first"


def test_a_member_of_a_stable_group_is_told_its_assignment_again() -> None:
    world = World()
    _, follower = world.stable(2)
    again = world.sync(follower)
    assert again.synced is not None
    assert again.synced.assignment == follower.encode()


def test_a_member_who_never_asks_for_its_assignment_is_out_after_the_rebalance_timeout() -> None:
    world = World()
    leader, follower = completing(world)
    world.sync(leader, assignments={leader: b"x", follower: b"y"})
    assert world.group.state is GroupState.STABLE
    for _ in range(13):
        world.heartbeat(leader)
        world.heartbeat(follower)
        world.advance(5)
    assert follower not in world.group.members
    assert world.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS


def test_followers_wait_no_longer_than_the_rebalance_timeout_for_a_leader_that_is_gone() -> None:
    world = World()
    leader, follower = completing(world)
    waiting = world.sync(follower)
    world.advance(10.1)
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert leader not in world.group.members
    world.join(follower)
    assert world.group.leader == follower


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation": 7}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_sync_that_does_not_fit_the_generation_is_refused(
    options: dict[str, object], error: ErrorCode
) -> None:
    world = World()
    leader, _ = completing(world)
    assert world.sync(**{"member_id": leader, **options}).error is error  # type: ignore[arg-type]


def test_a_sync_during_the_next_rebalance_is_sent_to_join() -> None:
    world = World()
    leader, follower = world.stable(2)
    world.join(leader)
    assert world.sync(follower).error is ErrorCode.REBALANCE_IN_PROGRESS
