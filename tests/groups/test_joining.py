"""JoinGroup: which members may join, and what starts a rebalance."""

from __future__ import annotations

import pytest

from kafkapy.groups.classic.group import GroupState
from kafkapy.groups.classic.join import MOST_PENDING
from kafkapy.groups.classic.subscription import MOST_TOPICS
from kafkapy.groups.config import GroupConfig
from kafkapy.protocol.errors import ErrorCode
from tests.groups.group_world import RANGE, World, subscription

ROUND_ROBIN = (("roundrobin", subscription("t")),)
BOTH = (*RANGE, *ROUND_ROBIN)


def test_a_dynamic_member_is_given_an_id_and_told_to_come_back_with_it() -> None:
    world = World()
    replies = world.join(client_id="app")
    assert replies.joined is not None
    assert replies.error is ErrorCode.MEMBER_ID_REQUIRED
    assert replies.joined.member_id == "app-1"
    assert not world.group.members


@pytest.mark.parametrize("instance", [None, "i" * 32_767])
def test_a_member_id_takes_little_memory_however_long_its_client_id_is(instance: str | None) -> None:
    world = World()
    replies = world.join(client_id="c" * 32_767, instance=instance, version=4)
    world.settle()
    assert replies.joined is not None
    prefix, _, rest = replies.joined.member_id.partition("-")
    assert set(prefix) <= {"c", "i"}
    assert len(prefix) == 255
    assert rest


def test_before_version_4_a_member_joins_at_once() -> None:
    world = World()
    replies = world.join(version=3)
    world.settle()
    assert replies.joined is not None
    assert replies.joined.error_code == ErrorCode.NONE
    assert replies.joined.leader == replies.joined.member_id == "c-1"


def test_an_id_that_was_never_handed_out_is_unknown() -> None:
    world = World()
    assert world.join("c-7").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_is_not_used_within_the_session_timeout_is_forgotten() -> None:
    world = World()
    member_id = world.new_id(session_ms=10_000)
    world.advance(10.1)
    assert world.join(member_id).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.timers.pending == 0


def test_the_leader_learns_every_members_metadata_and_the_others_none() -> None:
    world = World()
    first, second = world.new_id(), world.new_id()
    led = world.join(first)
    followed = world.join(second)
    world.settle()
    assert led.joined is not None
    assert followed.joined is not None
    assert led.joined.leader == followed.joined.leader == first
    assert {each.member_id: each.metadata for each in led.joined.members} == dict.fromkeys(
        (first, second), RANGE[0][1]
    )
    assert followed.joined.members == []
    assert led.joined.generation_id == followed.joined.generation_id == 1
    assert led.joined.protocol_name == "range"
    assert led.joined.protocol_type == "consumer"


def test_a_repeated_join_takes_the_place_of_the_one_that_waits() -> None:
    world = World()
    member_id = world.new_id()
    given_up = world.join(member_id)
    repeated = world.join(member_id)
    assert given_up.error is ErrorCode.REBALANCE_IN_PROGRESS
    world.settle()
    assert repeated.error is ErrorCode.NONE


class TestTheInitialDelay:
    def test_an_empty_group_waits_for_more_members(self) -> None:
        world = World()
        replies = world.join(world.new_id())
        world.advance(2.9)
        assert replies.joined is None
        world.advance(0.2)
        assert replies.error is ErrorCode.NONE

    def test_a_member_who_comes_meanwhile_extends_it_by_as_much(self) -> None:
        world = World()
        first = world.join(world.new_id())
        world.advance(2)
        second = world.join(world.new_id())
        world.advance(2)
        assert first.joined is None
        world.advance(2.1)
        assert first.error is second.error is ErrorCode.NONE

    def test_it_is_not_extended_beyond_the_rebalance_timeout(self) -> None:
        world = World()
        first = world.join(world.new_id(), rebalance_ms=7_000)
        for _ in range(6):
            world.advance(1)
            world.join(world.new_id(), rebalance_ms=7_000)
        world.advance(1.1)
        assert first.error is ErrorCode.NONE
        assert len(world.group.members) == 7

    def test_without_a_delay_the_first_member_is_alone_at_once(self) -> None:
        world = World(GroupConfig(initial_rebalance_delay_ms=0))
        replies = world.join(world.new_id())
        world.advance(0)
        assert replies.error is ErrorCode.NONE

    def test_a_group_that_emptied_is_initial_again(self) -> None:
        world = World()
        (only,) = world.stable()
        assert world.leave(only) == [ErrorCode.NONE]
        assert world.group.state is GroupState.EMPTY
        replies = world.join(world.new_id())
        assert replies.joined is None
        world.advance(3.1)
        assert replies.joined is not None
        assert replies.joined.generation_id == 3


class TestProtocols:
    def test_the_one_that_most_members_prefer_is_chosen_among_those_all_support(self) -> None:
        world = World()
        mine = (("a", b""), ("b", b""), ("c", b""))
        yours = (("b", b""), ("a", b""))
        world.join(world.new_id(protocols=mine, protocol_type="x"), protocols=mine, protocol_type="x")
        for _ in range(2):
            world.join(world.new_id(protocols=yours, protocol_type="x"), protocols=yours, protocol_type="x")
        world.settle()
        assert world.group.protocol_name == "b"

    def test_a_member_with_none_in_common_is_refused(self) -> None:
        world = World()
        world.stable(protocols=RANGE)
        assert world.join(protocols=ROUND_ROBIN).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert world.group.state is GroupState.STABLE

    def test_a_member_of_another_protocol_type_is_refused(self) -> None:
        world = World()
        world.stable()
        assert world.join(protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    @pytest.mark.parametrize(("protocol_type", "protocols"), [("", RANGE), ("consumer", ())])
    def test_a_member_without_any_is_refused(
        self, protocol_type: str, protocols: tuple[tuple[str, bytes], ...]
    ) -> None:
        world = World()
        refused = world.join(protocol_type=protocol_type, protocols=protocols)
        assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def test_a_group_that_emptied_takes_up_another_protocol_type(self) -> None:
        world = World()
        world.leave(*world.stable())
        connect = (("v1", b"x"),)
        world.stable(protocol_type="connect", protocols=connect)
        assert world.group.protocol_type == "connect"
        assert world.group.subscribed is None

    def test_of_members_with_very_many_topics_no_subscription_is_known(self) -> None:
        world = World()
        leader, follower = world.stable(2)
        assert world.group.subscribed == frozenset({"t"})
        world.join(follower, protocols=(("range", subscription(*map(str, range(MOST_TOPICS)))),))
        world.join(leader)
        assert world.group.subscribed is None
        assert world.group.is_subscribed("t")
        world.join(follower)
        world.join(leader)
        assert world.group.subscribed == frozenset({"t"})


class TestRejoining:
    def test_a_follower_whose_metadata_is_the_same_is_told_the_current_generation(self) -> None:
        world = World()
        _, follower = world.stable(2)
        replies = world.join(follower)
        assert replies.joined is not None
        assert replies.joined.generation_id == 1
        assert world.group.state is GroupState.STABLE

    def test_a_follower_with_other_metadata_starts_a_rebalance(self) -> None:
        world = World()
        leader, follower = world.stable(2)
        waiting = world.join(follower, protocols=(("range", subscription("u")),))
        assert world.group.state is GroupState.PREPARING_REBALANCE
        assert world.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
        world.join(leader)
        assert waiting.joined is not None
        assert waiting.joined.generation_id == 2
        assert world.group.subscribed == frozenset({"t", "u"})

    def test_the_leader_starts_a_rebalance_whenever_it_joins(self) -> None:
        world = World()
        leader, _ = world.stable(2)
        world.join(leader)
        assert world.group.state is GroupState.PREPARING_REBALANCE

    def test_a_member_who_missed_the_answer_is_given_it_again(self) -> None:
        world = World()
        member_id = world.new_id()
        world.join(member_id)
        world.settle()
        again = world.join(member_id)
        assert again.joined is not None
        assert again.joined.generation_id == 1
        assert [each.member_id for each in again.joined.members] == [member_id]

    def test_a_new_member_starts_a_rebalance_that_ends_when_all_have_rejoined(self) -> None:
        world = World()
        first, second = world.stable(2)
        newcomer = world.join(world.new_id())
        world.join(first)
        assert newcomer.joined is None
        world.join(second)
        assert newcomer.joined is not None
        assert newcomer.joined.generation_id == 2
        assert newcomer.joined.leader == first

    def test_an_id_that_is_still_pending_is_waited_for(self) -> None:
        world = World()
        (first,) = world.stable()
        world.join(world.new_id())
        pending = world.new_id()
        waiting = world.join(first)
        assert waiting.joined is None
        world.join(pending)
        assert waiting.error is ErrorCode.NONE
        assert len(world.group.members) == 3

    def test_a_pending_id_that_is_given_up_is_not_waited_for(self) -> None:
        world = World()
        (first,) = world.stable()
        world.join(world.new_id())
        pending = world.new_id()
        waiting = world.join(first)
        assert world.leave(pending) == [ErrorCode.NONE]
        assert waiting.error is ErrorCode.NONE

    def test_members_who_do_not_rejoin_within_the_rebalance_timeout_are_out(self) -> None:
        world = World()
        leader, follower = world.stable(2, session_ms=100_000, rebalance_ms=20_000)
        newcomer = world.join(world.new_id(), rebalance_ms=20_000)
        world.join(follower, session_ms=100_000, rebalance_ms=20_000)
        world.advance(20.1)
        assert newcomer.joined is not None
        assert leader not in world.group.members
        assert newcomer.joined.leader == follower
        assert world.heartbeat(leader) is ErrorCode.UNKNOWN_MEMBER_ID


class TestGroupMaxSize:
    CONFIG = GroupConfig(max_size=2)

    def test_a_full_group_turns_new_members_away(self) -> None:
        world = World(self.CONFIG)
        world.stable(2)
        assert world.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
        assert world.group.state is GroupState.STABLE

    def test_among_members_who_rejoin_the_first_ones_stay(self) -> None:
        world = World(self.CONFIG)
        first, second = world.stable(2)
        world.join(first)
        pending = world.new_id()
        newcomer = world.join(pending)
        refused = world.join(second)
        assert refused.error is ErrorCode.GROUP_MAX_SIZE_REACHED
        assert newcomer.error is ErrorCode.NONE
        assert set(world.group.members) == {first, pending}

    def test_an_id_that_finds_the_group_full_is_taken_back(self) -> None:
        world = World(self.CONFIG)
        ids = [world.new_id() for _ in range(3)]
        waiting = [world.join(member_id) for member_id in ids]
        assert waiting[2].error is ErrorCode.GROUP_MAX_SIZE_REACHED
        world.settle()
        assert [replies.error for replies in waiting[:2]] == [ErrorCode.NONE] * 2
        assert not world.group.pending


def test_member_ids_are_handed_out_up_to_a_limit() -> None:
    world = World()
    for number in range(MOST_PENDING - 1):
        world.rebalances.add_pending(world.group, f"pending-{number}", 10_000)
    first = world.new_id()
    assert world.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    world.leave(first)
    world.new_id()
