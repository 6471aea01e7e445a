"""Members of consumer groups take no more memory than they may."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kafkapy.groups.coordinator import MAX_TOPIC_NAMES
from kafkapy.groups.member_memory import MAX_MEMBER_BYTES, MemberLimits
from kafkapy.groups.member_total import MATCH_BYTES, NAME_BYTES, subscription_bytes
from kafkapy.metadata.image import PartitionState, Topic
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkapy.protocol.types import random_uuid
from tests.groups.consumer.consumer_world import ConsumerWorld, SimulatedConsumer, beat, join

REFUSED = ErrorCode.GROUP_MAX_SIZE_REACHED
TOPICS = 2_000


@pytest.fixture
async def world() -> AsyncIterator[ConsumerWorld]:
    """A coordinator with room for three members that subscribe to TOPICS topics."""
    made = ConsumerWorld()
    made.groups.groups.members.limits = limits()
    await made.start()
    yield made
    for group_id in made.groups.groups:
        made.group(group_id).check()
    await made.groups.stop()


def limits() -> MemberLimits:
    return MemberLimits(3 * bytes_of(TOPICS) + 50_000, for_small=50_000, small=10_000)


def bytes_of(topics: int) -> int:
    """What a member that subscribes to so many topics takes, at most."""
    return 4_000 + subscription_bytes(names(topics))


def names(count: int) -> list[str]:
    return [f"t{number:05d}" for number in range(count)]


def create_topics(world: ConsumerWorld, count: int) -> None:
    state = (PartitionState(1, 0, (1,), (1,)),)
    world.publish(world.image.with_topics([Topic(name, random_uuid(), state) for name in names(count)]))


async def error(
    world: ConsumerWorld, request: ConsumerGroupHeartbeatRequest, group_id: str = "g"
) -> ErrorCode:
    request.group_id = group_id
    return ErrorCode((await world.heartbeat(request)).error_code)


async def test_one_member_subscribes_to_no_more_than_it_may(world: ConsumerWorld) -> None:
    too_many = MAX_MEMBER_BYTES // NAME_BYTES
    assert await error(world, join("a", names(too_many))) is REFUSED
    assert "g" not in world.groups.groups
    assert await error(world, join("a", names(TOPICS))) is ErrorCode.NONE


async def test_a_member_names_so_many_topics_and_others_do_not_pay_for_more() -> None:
    world = ConsumerWorld()
    await world.start()
    await world.heartbeat(join("a"))
    refused = await world.heartbeat(join("b", names(MAX_TOPIC_NAMES + 1)))
    assert refused.error_code == REFUSED
    assert refused.error_message is not None
    assert "by a regular expression" in refused.error_message
    assert world.group().members.keys() == {"a"}
    assert await error(world, join("b", names(MAX_TOPIC_NAMES))) is ErrorCode.NONE
    world.group().check()
    await world.groups.stop()


async def test_members_of_all_groups_subscribe_to_no_more_than_they_may(world: ConsumerWorld) -> None:
    for number in range(3):
        assert await error(world, join("a", names(TOPICS)), f"g{number}") is ErrorCode.NONE
    assert await error(world, join("a", names(TOPICS)), "g3") is REFUSED
    assert await error(world, join("b", names(TOPICS)), "g0") is REFUSED
    assert await error(world, join("b"), "g0") is ErrorCode.NONE, "it is small"
    again = beat("a", 0, rebalance_timeout_ms=1, subscribed_topic_names=names(TOPICS), topic_partitions=[])
    assert await error(world, again, "g0") is ErrorCode.NONE, "its own subscription is replaced"
    assert await error(world, beat("a", -1), "g1") is ErrorCode.NONE
    assert await error(world, join("a", names(TOPICS)), "g3") is ErrorCode.NONE


async def test_members_that_are_loaded_count(world: ConsumerWorld) -> None:
    for number in range(3):
        assert await error(world, join("a", names(TOPICS)), f"g{number}") is ErrorCode.NONE
    await world.restart()
    world.groups.groups.members.limits = limits()
    assert await error(world, join("a", names(TOPICS)), "g3") is REFUSED


async def test_an_expression_counts_with_the_topics_that_it_matches(world: ConsumerWorld) -> None:
    create_topics(world, TOPICS)
    room = limits().nbytes // (TOPICS * MATCH_BYTES)
    for number in range(room):
        consumer = SimulatedConsumer(world, f"m{number}", topics=None, regex=f"t.*|x{number}")
        assert await consumer.heartbeat() is ErrorCode.NONE, number
    assert await SimulatedConsumer(world, "more", topics=None, regex="t.*|more").heartbeat() is REFUSED
    await world.settle()
    assert await SimulatedConsumer(world, "more", topics=None, regex="t.*|more").heartbeat() is REFUSED
    known = SimulatedConsumer(world, "more", topics=None, regex="t.*|x0")
    assert await known.heartbeat() is ErrorCode.NONE, "its topics are kept already"


async def test_expressions_that_match_little_leave_room_for_others(world: ConsumerWorld) -> None:
    create_topics(world, TOPICS)
    for number in range(100):
        consumer = SimulatedConsumer(
            world, f"m{number}", topics=None, regex=f"t0000[{number % 10}x]|x{number}"
        )
        assert await consumer.heartbeat() is ErrorCode.NONE, number
        await world.advance(11)
        await consumer.heartbeat()
        await world.settle()
