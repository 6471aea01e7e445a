"""ConsumerGroupHeartbeat: joining, following, leaving, and what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kafkapy.groups.config import GroupConfig
from kafkapy.groups.consumer.group import ConsumerGroupState
from kafkapy.groups.consumer.member import MemberState
from kafkapy.groups.consumer.target import QUICK
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.consumer_group_heartbeat import TopicPartitions
from tests.groups.consumer.consumer_world import ConsumerWorld, SimulatedConsumer, beat, join


@pytest.fixture
async def world() -> AsyncIterator[ConsumerWorld]:
    world = ConsumerWorld()
    await world.start()
    world.topic("t", 4)
    yield world
    await world.groups.stop()


def partitions(answer: Any) -> list[int]:
    """The partitions of the one topic of an answer."""
    return [each for topic in answer.assignment.topic_partitions for each in topic.partitions]


async def test_the_first_member_gets_all_partitions(world: ConsumerWorld) -> None:
    answer = await world.heartbeat(join("a"))
    assert (answer.error_code, answer.member_epoch, partitions(answer)) == (0, 2, [0, 1, 2, 3])
    assert answer.heartbeat_interval_ms == 5_000
    assert world.group().state is ConsumerGroupState.STABLE
    world.check_stored()


async def test_an_assignment_is_sent_when_it_is_new(world: ConsumerWorld) -> None:
    await world.heartbeat(join("a"))
    assert (await world.heartbeat(beat("a", 2))).assignment is None


async def test_one_members_change_writes_nothing_about_members_who_keep_what_they_have(
    world: ConsumerWorld,
) -> None:
    consumers = [SimulatedConsumer(world, f"m{number}") for number in range(4)]
    for _ in range(6):
        for consumer in consumers:
            await consumer.heartbeat()
    targets = dict(world.group().targets)
    before = len(world.log.batches[0])
    await world.heartbeat(join("other", ["missing"]))
    assert world.group().targets == {**targets, "other": {}}
    assert len(world.log.batches[0]) == before + 1, "one batch for one event"


async def test_a_partition_moves_only_after_its_owner_gave_it_up(world: ConsumerWorld) -> None:
    first = SimulatedConsumer(world, "a")
    await first.heartbeat()
    second = SimulatedConsumer(world, "b")
    await second.heartbeat()
    assert second.owned == set()
    await first.heartbeat()
    assert len(first.assigned) == 2
    assert world.group().members["a"].state is MemberState.UNREVOKED_PARTITIONS
    await second.heartbeat()
    assert second.owned == set()
    await first.heartbeat()
    await second.heartbeat()
    assert len(first.owned) == len(second.owned) == 2
    assert world.group().state is ConsumerGroupState.STABLE


async def test_members_that_come_together_cause_one_assignment() -> None:
    world = ConsumerWorld(GroupConfig(consumer_assignment_interval_ms=1_000))
    await world.start()
    world.topic("t", 4)
    assert len(partitions(await world.heartbeat(join("a")))) == 4
    for name in "bcd":
        answer = await world.heartbeat(join(name))
        assert (answer.member_epoch, partitions(answer)) == (2, [])
    assert (world.group().epoch, world.group().assignment_epoch) == (5, 2)
    await world.advance(1.0)
    await world.heartbeat(beat("b", 2))
    assert world.group().assignment_epoch == 5
    await world.groups.stop()


async def test_the_time_between_assignments_may_change_while_groups_are_there() -> None:
    world = ConsumerWorld(GroupConfig(consumer_assignment_interval_ms=60_000))
    await world.start()
    world.topic("t", 4)
    await world.heartbeat(join("a"))
    await world.heartbeat(join("b"))
    await world.advance(2.0)
    await world.heartbeat(beat("b", 2))
    assert (world.group().epoch, world.group().assignment_epoch) == (3, 2)
    world.groups.configure(GroupConfig(consumer_assignment_interval_ms=1_000))
    await world.heartbeat(beat("b", 2))
    assert world.group().assignment_epoch == 3
    world.publish(world.image.with_group_config("g", {"consumer.assignment.interval.ms": "9000"}))
    await world.heartbeat(join("c"))
    await world.advance(2.0)
    await world.heartbeat(beat("c", 3))
    assert world.group().assignment_epoch == 3, "the group has a setting of its own"
    await world.groups.stop()


async def test_a_silent_member_is_fenced_after_its_session(world: ConsumerWorld) -> None:
    await world.heartbeat(join("a"))
    await world.advance(44)
    await world.heartbeat(beat("a", 2))
    await world.advance(44)
    assert "a" in world.group().members
    await world.advance(2)
    assert "a" not in world.group().members
    assert (await world.heartbeat(beat("a", 2))).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    world.check_stored()


async def test_the_session_timeout_is_the_brokers_setting() -> None:
    world = ConsumerWorld(
        GroupConfig(consumer_session_timeout_ms=60_000, consumer_heartbeat_interval_ms=7_000)
    )
    await world.start()
    assert (await world.heartbeat(join("a"))).heartbeat_interval_ms == 7_000
    await world.advance(59)
    assert "a" in world.group().members
    await world.advance(2)
    assert "a" not in world.group().members


async def test_a_group_may_have_a_session_timeout_of_its_own(world: ConsumerWorld) -> None:
    settings = {"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": "7000"}
    world.publish(world.image.with_group_config("g", settings))
    assert (await world.heartbeat(join("a"))).heartbeat_interval_ms == 7_000
    await world.advance(59)
    assert "a" in world.group().members
    await world.advance(2)
    assert "a" not in world.group().members


async def test_a_member_that_does_not_give_up_its_partitions_in_time_is_fenced(world: ConsumerWorld) -> None:
    await world.heartbeat(join("a"))
    await world.heartbeat(join("b"))
    owned = [TopicPartitions(topic_id=world.image.topics["t"].id, partitions=[0, 1, 2, 3])]
    for _ in range(13):
        await world.heartbeat(beat("a", 2, topic_partitions=owned))
        await world.heartbeat(beat("b", world.group().members["b"].epoch))
        await world.advance(5)
    assert list(world.group().members) == ["b"]


async def test_a_lost_answer_may_be_asked_for_again(world: ConsumerWorld) -> None:
    consumers = [SimulatedConsumer(world, "a"), SimulatedConsumer(world, "b")]
    for _ in range(4):
        for consumer in consumers:
            await consumer.heartbeat()
    member = world.group().members["a"]
    assert member.previous_epoch == member.epoch - 1
    again = beat("a", member.previous_epoch, topic_partitions=[])
    assert (await world.heartbeat(again)).member_epoch == member.epoch
    fenced = await world.heartbeat(beat("a", member.previous_epoch))
    assert fenced.error_code == ErrorCode.FENCED_MEMBER_EPOCH


async def test_a_static_member_comes_back_to_its_partitions(world: ConsumerWorld) -> None:
    first = SimulatedConsumer(world, "a", instance_id="i")
    await first.heartbeat()
    owned, epoch = set(first.owned), world.group().epoch
    taken = await world.heartbeat(join("b", instance_id="i"))
    assert taken.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    await first.leave()
    assert world.group().members["a"].is_away
    second = SimulatedConsumer(world, "b", instance_id="i")
    await second.heartbeat()
    assert (second.owned, world.group().epoch) == (owned, epoch), "no rebalance"
    assert list(world.group().members) == ["b"]
    fenced = await world.heartbeat(beat("a", epoch, instance_id="i"))
    assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID
    world.check_stored()


async def test_new_topics_that_an_expression_matches_are_assigned(world: ConsumerWorld) -> None:
    consumer = SimulatedConsumer(world, "a", topics=None, regex="[tu]")
    await consumer.heartbeat()
    await world.settle()
    await consumer.heartbeat()
    assert len(consumer.owned) == 4
    world.topic("u", 2)
    world.topic("tu", 2)
    await world.advance(11)
    await consumer.heartbeat()
    await world.settle()
    await consumer.heartbeat()
    assert len(consumer.owned) == 6
    world.check_stored()
    await consumer.leave()
    assert world.group().regexes == {}


async def test_a_new_rack_of_a_replica_calls_for_a_new_assignment(world: ConsumerWorld) -> None:
    await world.heartbeat(join("a", rack_id="r1"))
    epoch = world.group().epoch
    world.rack("r1")
    world.topic("t", 4)
    await world.heartbeat(beat("a", epoch))
    assert world.group().epoch == epoch + 1


async def test_a_write_that_is_refused_changes_nothing(world: ConsumerWorld) -> None:
    await world.heartbeat(join("a"))
    group = world.group()
    before = group.epoch, dict(group.members), dict(group.targets)
    world.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    answer = await world.heartbeat(join("b"))
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (group.epoch, group.members, group.targets) == before
    group.check()


async def test_a_write_that_fails_later_has_the_partition_read_again(world: ConsumerWorld) -> None:
    await world.heartbeat(join("a"))
    world.log.hold = True
    answer = world.groups.consumer_heartbeat(join("b"), 1, _client())
    world.log.release(ErrorCode.UNKNOWN_SERVER_ERROR)
    world.log.hold = False
    assert (await answer).error_code == ErrorCode.UNKNOWN_SERVER_ERROR  # type: ignore[misc]
    await world.advance(5)
    assert list(world.group().members) == ["a"]


async def test_a_group_outlives_its_coordinator(world: ConsumerWorld) -> None:
    consumers = [SimulatedConsumer(world, "a"), SimulatedConsumer(world, "b")]
    for _ in range(4):
        for consumer in consumers:
            await consumer.heartbeat()
    owned, epoch = [set(consumer.owned) for consumer in consumers], world.group().epoch
    await world.restart()
    for consumer in consumers:
        assert await consumer.heartbeat() is ErrorCode.NONE
    assert ([consumer.owned for consumer in consumers], world.group().epoch) == (owned, epoch)
    await world.advance(46)
    assert world.group().members == {}


async def test_members_commit_with_the_epochs_of_their_partitions(world: ConsumerWorld) -> None:
    first, second = SimulatedConsumer(world, "a"), SimulatedConsumer(world, "b")
    for _ in range(4):
        await first.heartbeat()
        await second.heartbeat()
    group, topic = world.group(), world.image.topics["t"].id
    member = group.members["a"]
    assert group.validate_offset_commit("a", None, member.epoch, 9) is None
    check = group.validate_offset_commit("a", None, 2, 9)
    assert check is not None
    check("t", topic, min(member.assigned[topic]))
    for stale in (min(group.members["b"].assigned[topic]), 99):
        with pytest.raises(KafkaError, match="STALE_MEMBER_EPOCH"):
            check("t", topic, stale)
    for member_id, epoch, version, error in (
        ("a", member.epoch + 1, 9, "STALE_MEMBER_EPOCH"),
        ("a", member.epoch, 8, "UNSUPPORTED_VERSION"),
        ("x", member.epoch, 9, "UNKNOWN_MEMBER_ID"),
        ("", -1, 9, "UNKNOWN_MEMBER_ID"),
    ):
        with pytest.raises(KafkaError, match=error):
            group.validate_offset_commit(member_id, None, epoch, version)


async def test_a_full_group_takes_nobody_else() -> None:
    world = ConsumerWorld(GroupConfig(consumer_max_size=1))
    await world.start()
    await world.heartbeat(join("a", ["t"]))
    assert (await world.heartbeat(join("b"))).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert (await world.heartbeat(join("a"))).error_code == ErrorCode.NONE
    await world.groups.stop()


async def test_a_large_target_is_computed_in_a_thread(world: ConsumerWorld) -> None:
    world.topic("t", QUICK)
    answer = await world.heartbeat(join("a"))
    assert (answer.member_epoch, partitions(answer)) == (1, [])
    await world.settle()
    answer = await world.heartbeat(beat("a", 1))
    assert (answer.member_epoch, partitions(answer)) == (2, list(range(QUICK)))


def _client() -> Any:
    from kafkapy.groups.modern.heartbeats import Client

    return Client("c", "/127.0.0.1")
