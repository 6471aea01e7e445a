"""However many groups there are, a member that joins and a changed topic cost the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NoReturn

import pytest

from kafkapy.groups.groups import Groups
from kafkapy.groups.modern.topic_changes import MOST_NAMES, TopicChanges
from kafkapy.groups.modern.topics import TopicsView
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.join_group import JoinGroupResponse
from tests.calls import calls_of
from tests.groups.classic_world import joining
from tests.groups.consumer.consumer_world import ConsumerWorld, SimulatedConsumer
from tests.groups.share.share_world import Member, ShareWorld


def _walk(*_: Any) -> NoReturn:
    raise AssertionError("all groups are walked")


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ConsumerWorld]:
    """A coordinator whose groups nobody walks over while clients wait."""
    made = ConsumerWorld()
    await made.start()
    with monkeypatch.context() as patch:
        for name in ("__iter__", "keys", "values", "items"):
            patch.setattr(Groups, name, _walk)
        yield made
    await made.groups.stop()


async def test_a_member_joins_without_a_walk_over_all_groups(world: ConsumerWorld) -> None:
    large = (("range", bytes(1 << 20)),)
    for group_id in ("g", "g" * 2_000):
        member = joining(version=4)
        answer = world.groups.join_group(group_id, member)
        assert isinstance(answer, JoinGroupResponse)
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    object.__setattr__(member, "protocols", large)
    assert isinstance(world.groups.join_group("large", member), JoinGroupResponse)
    assert await SimulatedConsumer(world, "a", topics=("t",) * 2_000).heartbeat() is not None
    assert await SimulatedConsumer(world, "b", topics=tuple(map(str, range(2_000)))).heartbeat() is not None


async def test_a_changed_topic_costs_no_walk_and_each_group_notices_it(world: ConsumerWorld) -> None:
    by_name, by_regex = SimulatedConsumer(world, "a"), SimulatedConsumer(world, "b", None, regex="t.*")
    world.topic("t", 1)
    for _ in range(4):
        await by_name.heartbeat()
        await by_regex.heartbeat()
        await world.settle()
    world.topic("t", 3)
    world.topic("other", 3)
    for _ in range(6):
        await by_name.heartbeat()
        await by_regex.heartbeat()
        await world.settle()
    assert len(by_name.owned) + len(by_regex.owned) == 3


async def test_a_group_that_missed_very_many_changes_looks_at_all_its_topics(world: ConsumerWorld) -> None:
    consumer = SimulatedConsumer(world, "a")
    world.topic("t", 1)
    await consumer.heartbeat()
    await consumer.heartbeat()
    world.topic("t", 2)
    for number in range(2 * MOST_NAMES):
        world.topic(f"other{number}", 1)
    for _ in range(3):
        await consumer.heartbeat()
    assert len(consumer.owned) == 2


async def test_a_group_that_missed_very_many_changes_hashes_only_its_changed_topics(
    world: ConsumerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = tuple(f"t{number}" for number in range(50))
    consumer = SimulatedConsumer(world, "a", names)
    for name in names:
        world.topic(name, 1)
    for _ in range(3):
        await consumer.heartbeat()
    hashed = calls_of(monkeypatch, TopicsView, "topic_hash")
    world.topic("t7", 2)
    for number in range(2 * MOST_NAMES):
        world.topic(f"other{number}", 1)
    await consumer.heartbeat()
    assert [topic.name for (_, topic), _ in hashed] == ["t7"]


async def test_a_look_at_expressions_stores_the_hash_of_the_topics_as_they_are_then(
    world: ConsumerWorld,
) -> None:
    by_name, by_regex = SimulatedConsumer(world, "a"), SimulatedConsumer(world, "b", None, regex="u.*")
    world.topic("t", 1)
    world.topic("u", 1)
    await by_name.heartbeat()
    await by_regex.heartbeat()
    world.topic("t", 2)
    await world.settle()
    group = world.group()
    assert group.regexes["u.*"].topics == {"u"}
    assert group.metadata_hash == TopicsView(world.image).hash(("t", "u"))


async def test_a_share_member_that_leaves_stores_the_hash_of_the_topics_as_they_are_then() -> None:
    shares = ShareWorld()
    await shares.start()
    shares.topic("t", 1)
    members = [Member(shares, member_id, ("t",)) for member_id in "ab"]
    for member in members:
        assert await member.heartbeat() is ErrorCode.NONE
    shares.topic("t", 2)
    assert await members[0].leave() is ErrorCode.NONE
    assert shares.group().metadata_hash == TopicsView(shares.image).hash(("t",))
    await shares.groups.stop()


async def test_other_topics_do_not_make_a_group_look_at_its_own(world: ConsumerWorld) -> None:
    consumer = SimulatedConsumer(world, "a")
    world.topic("t", 1)
    for _ in range(3):
        await consumer.heartbeat()
    looked = world.group().refresh_deadline_ms
    world.topic("other", 1)
    await world.advance(1)
    await consumer.heartbeat()
    assert world.group().refresh_deadline_ms == looked


def test_changes_are_known_until_they_are_too_many() -> None:
    changes = TopicChanges()
    assert changes.since(0) == []
    changes.add(["a", "b"])
    seen = changes.count
    assert changes.since(0) == ["b", "a"]
    changes.add(["c"])
    assert changes.since(seen) == ["c"]
    changes.add(map(str, range(MOST_NAMES)))
    assert changes.since(seen) is None
    assert changes.since(changes.count) == []
