"""Static membership (KIP-345): members that keep their place when they come back."""

from __future__ import annotations

import pytest

from kafkapy.groups.classic.group import GroupState
from kafkapy.groups.classic.records import decode_group_value
from kafkapy.protocol.errors import ErrorCode
from tests.groups.group_world import RANGE, Replies, World, subscription

BOTH = (*RANGE, ("sticky", subscription("t")))
STICKY_FIRST = (("sticky", subscription("t")), *RANGE)


def stable_static(world: World, *instances: str, **options: object) -> dict[str, str]:
    """A stable group of static members; member id by group.instance.id, the leader first."""
    for instance in instances:
        world.join(instance=instance, **options)  # type: ignore[arg-type]
    world.settle()
    world.assign()
    return dict(world.group.static_members)


def test_a_static_member_joins_at_once_with_an_id_made_of_its_instance_id() -> None:
    world = World()
    replies = world.join(instance="i")
    world.settle()
    assert replies.joined is not None
    assert replies.joined.member_id == "i-1"
    assert replies.joined.members[0].group_instance_id == "i"


def test_one_that_comes_back_gets_its_assignment_without_a_rebalance() -> None:
    world = World()
    ids = stable_static(world, "a", "b")
    back = world.join(instance="b")
    assert back.joined is not None
    assert back.error is ErrorCode.NONE
    assert back.joined.generation_id == 1
    assert back.joined.member_id != ids["b"]
    assert world.group.state is GroupState.STABLE
    again = world.sync(back.joined.member_id, instance="b")
    assert again.synced is not None
    assert again.synced.assignment == ids["b"].encode()


def test_its_old_id_is_fenced() -> None:
    world = World()
    ids = stable_static(world, "a", "b")
    world.join(instance="b")
    assert world.heartbeat(ids["b"], instance="b") is ErrorCode.FENCED_INSTANCE_ID
    assert world.sync(ids["b"], instance="b").error is ErrorCode.FENCED_INSTANCE_ID
    assert world.join(ids["b"], instance="b").error is ErrorCode.FENCED_INSTANCE_ID
    assert world.leave((ids["b"], "b")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert world.heartbeat(ids["b"]) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_request_of_the_old_id_that_waits_is_fenced_at_once() -> None:
    world = World()
    ids = stable_static(world, "a", "b")
    old = world.join(ids["a"], instance="a")
    assert old.joined is None
    new = world.join(instance="a")
    assert old.error is ErrorCode.FENCED_INSTANCE_ID
    world.join(ids["b"], instance="b")
    assert new.error is ErrorCode.NONE


def test_the_new_id_is_answered_when_it_is_stored() -> None:
    world = World()
    stable_static(world, "a")
    world.store.hold = True
    back = world.join(instance="a")
    assert back.joined is None
    world.release()
    assert back.joined is not None
    stored = decode_group_value(world.store.written[-1][1])
    assert [each.member_id for each in stored.members] == [back.joined.member_id]
    assert stored.leader == back.joined.member_id


def test_a_new_id_that_cannot_be_stored_leaves_the_old_one_valid() -> None:
    world = World()
    ids = stable_static(world, "a", "b")
    world.store.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.join(instance="b").error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.heartbeat(ids["b"], instance="b") is ErrorCode.NONE


def test_a_rebalance_that_begins_while_the_new_id_is_stored_answers_it() -> None:
    world = World()
    ids = stable_static(world, "a", "b")
    world.store.hold = True
    back = world.join(instance="b")
    world.join(ids["a"], instance="a")
    assert back.joined is not None
    assert back.joined.generation_id == 2
    world.release()
    assert world.group.state is GroupState.COMPLETING_REBALANCE


class TestALeaderThatComesBack:
    def back(self, version: int) -> tuple[World, dict[str, str], Replies]:
        world = World()
        ids = stable_static(world, "a", "b")
        return world, ids, world.join(instance="a", version=version)

    def test_is_told_to_skip_the_assignment_from_version_9(self) -> None:
        world, _, back = self.back(9)
        assert back.joined is not None
        assert back.joined.skip_assignment
        assert back.joined.leader == back.joined.member_id == world.group.leader
        assert len(back.joined.members) == 2

    def test_is_not_told_that_it_leads_before_version_9(self) -> None:
        world, ids, back = self.back(8)
        assert back.joined is not None
        assert not back.joined.skip_assignment
        assert back.joined.leader == ids["a"] != back.joined.member_id
        assert back.joined.members == []
        assert world.group.leader == back.joined.member_id

    def test_starts_a_rebalance_when_it_joins_again(self) -> None:
        world, _, back = self.back(9)
        assert back.joined is not None
        world.join(back.joined.member_id, instance="a")
        assert world.group.state is GroupState.PREPARING_REBALANCE


def test_one_that_comes_back_with_another_preference_starts_a_rebalance() -> None:
    world = World()
    stable_static(world, "a", protocols=BOTH)
    assert world.group.protocol_name == "range"
    back = world.join(instance="a", protocols=STICKY_FIRST)
    assert back.joined is not None
    assert back.joined.generation_id == 2
    assert back.joined.protocol_name == "sticky"


def test_one_that_comes_back_with_other_topics_does_not() -> None:
    """The assignor would be the same; the member learns nothing new until the next rebalance."""
    world = World()
    stable_static(world, "a")
    back = world.join(instance="a", protocols=(("range", subscription("u")),))
    assert back.joined is not None
    assert back.joined.generation_id == 1


def test_one_that_comes_back_while_the_leader_assigns_starts_over() -> None:
    world = World()
    world.join(instance="a")
    world.join(instance="b")
    world.settle()
    world.join(instance="b")
    assert world.group.state is GroupState.PREPARING_REBALANCE


def test_its_place_is_kept_through_a_rebalance_until_its_session_ends() -> None:
    world = World()
    ids = stable_static(world, "a", "b", rebalance_ms=5_000, session_ms=30_000)
    waiting = world.join(ids["a"], instance="a", rebalance_ms=5_000, session_ms=30_000)
    world.advance(5.1)
    assert waiting.joined is not None
    assert len(waiting.joined.members) == 2


def test_a_rebalance_to_which_no_static_member_comes_waits_for_their_sessions() -> None:
    world = World()
    ids = stable_static(world, "a", "b", rebalance_ms=5_000, session_ms=30_000)
    assert world.leave((ids["a"], "a")) == [ErrorCode.NONE]
    world.advance(20)
    assert world.heartbeat(ids["b"], instance="b") is ErrorCode.REBALANCE_IN_PROGRESS
    world.advance(30.1)
    assert world.group.state is GroupState.EMPTY
    assert world.timers.pending == 0


def test_static_members_with_a_tiny_rebalance_timeout_do_not_make_the_coordinator_spin() -> None:
    world = World()
    ids = stable_static(world, "a", "b", rebalance_ms=1, session_ms=10_000)
    world.sync(ids["a"], instance="a")
    fired = 0
    complete_join = world.rebalances.complete_join

    def counted(group: object) -> None:
        nonlocal fired
        fired += 1
        complete_join(world.group)

    world.rebalances.complete_join = counted  # type: ignore[method-assign]
    world.leave((ids["a"], "a"))
    world.advance(11)
    assert fired <= 11 / 0.1 + 2


def test_an_administrator_takes_one_out_by_its_instance_id() -> None:
    world = World()
    stable_static(world, "a", "b")
    assert world.leave(("", "b"), ("", "c")) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert set(world.group.static_members) == {"a"}
    assert world.group.state is GroupState.PREPARING_REBALANCE


@pytest.mark.parametrize("instance", [None, "a"])
def test_a_static_member_may_send_its_instance_id_or_not(instance: str | None) -> None:
    world = World()
    ids = stable_static(world, "a")
    assert world.heartbeat(ids["a"], instance=instance) is ErrorCode.NONE


def test_a_restarted_coordinator_knows_static_members() -> None:
    world = World()
    ids = stable_static(world, "a", "b")
    world.restart()
    assert dict(world.group.static_members) == ids
    back = world.join(instance="a")
    assert back.error is ErrorCode.NONE
    assert world.group.state is GroupState.STABLE
