"""A heartbeat costs little in a large group, and threads compute its target assignment."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from kafkapy.groups.consumer import progress
from kafkapy.groups.modern.existing_topics import ExistingTopics
from kafkapy.groups.modern.heartbeats import Client
from kafkapy.groups.modern.subscriptions import Subscriptions
from kafkapy.groups.modern.topics import TopicsView
from kafkapy.groups.share import heartbeat as share_heartbeat
from kafkapy.groups.streams.sticky_assignor import MemberSpec, StickyAssignor, SubtopologySpec
from kafkapy.metadata.image import Broker, MetadataImage, PartitionState, Topic
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.types import random_uuid
from tests.calls import calls_of
from tests.groups.consumer.consumer_world import ConsumerWorld, beat, join
from tests.groups.share.share_world import Member, ShareWorld
from tests.loop.cost import assert_costs_less

NAMES = 5_000
LARGE = 1_500
"""Topics whose assignment is not computed on the event loop."""


class Threads:
    """Worker threads that work when the test lets them."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.calls = 0

    async def blocking(self, call: Callable[..., Any], *args: Any) -> Any:
        self.calls += 1
        await self.gate.wait()
        return call(*args)


def topics(count: int, prefix: str = "t") -> list[Topic]:
    state = (PartitionState(1, 0, (1,), (1,)),)
    return [Topic(f"{prefix}{number:05d}", random_uuid(), state) for number in range(count)]


# --- targets ------------------------------------------------------------------------------------------


async def test_a_large_share_target_is_computed_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    snapshots = calls_of(monkeypatch, share_heartbeat, "target_request")
    threads = Threads()
    world = ShareWorld(blocking=threads.blocking)
    await world.start()
    threads.calls = 0
    created = topics(LARGE)
    world.publish(world.image.with_topics(created))
    members = [Member(world, f"m{number}", tuple(topic.name for topic in created)) for number in range(2)]
    for _ in range(4):
        for member in members:
            assert await member.heartbeat() is ErrorCode.NONE
    assert threads.calls == 1
    assert not any(member.assigned for member in members), "the target is not there yet"
    made = len(snapshots)
    threads.gate.set()
    await world.settle()
    for _ in range(4):
        for member in members:
            assert await member.heartbeat() is ErrorCode.NONE
            await world.settle()
    assert made == 1, "there is one snapshot while a target is being computed"
    assert len(members[0].assigned) == len(members[1].assigned) == LARGE // 2
    world.check()
    await world.groups.stop()


async def test_no_snapshot_is_made_while_a_target_is_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    snapshots = calls_of(monkeypatch, progress, "target_request")
    threads = Threads()
    world = ConsumerWorld(blocking=threads.blocking)
    await world.start()
    created = topics(2 * LARGE)
    world.publish(world.image.with_topics(created))
    names = [topic.name for topic in created]
    for number in range(5):
        response = await world.heartbeat(join(f"m{number}", names[number:]))
        assert response.error_code == ErrorCode.NONE
    assert len(snapshots) == 1
    threads.gate.set()
    await world.settle()
    for _ in range(2):
        member = world.group().members["m0"]
        await world.heartbeat(beat("m0", member.epoch))
        await world.settle()
    group = world.group()
    assert group.assignment_epoch == group.epoch
    assert len(snapshots) == 2
    world.check_stored()
    await world.groups.stop()


def test_one_process_with_many_members_gets_its_tasks_in_linear_time() -> None:
    def assigned(count: int) -> None:
        members = {f"m{number}": MemberSpec("p") for number in range(count)}
        found = StickyAssignor().assign(members, {"0": SubtopologySpec(count, False)}, 0)
        assert sum(len(each.active.get("0", ())) for each in found.values()) == count

    # It is ten times as much, and not a hundred times.
    assert_costs_less(lambda: assigned(4_000), 30, lambda: assigned(400))


# --- names --------------------------------------------------------------------------------------------


async def test_a_heartbeat_does_not_pay_for_the_names_of_the_group() -> None:
    async def grown(members: int) -> ConsumerWorld:
        world = ConsumerWorld()
        await world.start()
        world.publish(world.image.with_topics(topics(100, "0-")))
        for member in range(members):
            names = [f"{member}-{number:05d}" for number in range(NAMES)]
            response = await world.heartbeat(join(str(member), names))
            assert response.error_code == ErrorCode.NONE
        return world

    changes = itertools.count()

    def changed(world: ConsumerWorld) -> None:
        """A member changes one of its names."""
        names = [f"0-{number:05d}" for number in range(NAMES - 1)] + [f"other-{next(changes)}"]
        epoch = world.group().members["0"].epoch
        request = beat("0", epoch, rebalance_timeout_ms=1, subscribed_topic_names=names)
        world.groups.consumer_heartbeat(request, 1, Client("c", "/h"))

    few, many = await grown(1), await grown(30)
    assert_costs_less(lambda: changed(many), 3, lambda: changed(few))
    for world in (few, many):
        await world.settle()
        world.group().check()
        await world.groups.stop()


async def test_the_names_of_a_group_are_bounded() -> None:
    world = ConsumerWorld()
    await world.start()
    assert (await world.heartbeat(join("a", ["1", "2", "3"]))).error_code == ErrorCode.NONE
    world.group().subscriptions.most_names = 5
    assert (await world.heartbeat(join("b", ["3", "2", "1"]))).error_code == ErrorCode.NONE, "the same ones"
    refused = await world.heartbeat(join("c", ["3", "4", "5"]))
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refused.error_message is not None
    assert "different subscriptions" in refused.error_message
    assert (await world.heartbeat(join("c", ["4", "5"]))).error_code == ErrorCode.NONE
    world.group().check()
    await world.groups.stop()


async def test_the_names_of_a_share_group_are_bounded() -> None:
    world = ShareWorld()
    await world.start()
    assert await Member(world, "a", ("1", "2", "3")).heartbeat() is ErrorCode.NONE
    world.group().subscriptions.most_names = 5
    assert await Member(world, "b", ("3", "4", "5")).heartbeat() is ErrorCode.GROUP_MAX_SIZE_REACHED
    world.check()
    await world.groups.stop()


@pytest.mark.parametrize("seed", range(50))
def test_the_hash_that_is_kept_is_the_hash_of_all_names(seed: int) -> None:
    chance = random.Random(seed)
    subscribed, names = Subscriptions(), [f"t-{number}.{number % 7}" for number in range(12)]
    existing = ExistingTopics(subscribed)
    members: dict[int, frozenset[str]] = {}
    view = TopicsView(MetadataImage())
    for _ in range(60):
        step = chance.random()
        if step < 0.5:
            member, wanted = chance.randrange(4), frozenset(chance.sample(names, chance.randint(0, 6)))
            members[member] = subscribed.replace(members.get(member, frozenset()), wanted)
        else:
            old = view.image
            if step < 0.9:
                name = chance.choice(names)
                states = tuple(PartitionState(1, 0, (1,), (1,)) for _ in range(chance.randint(1, 4)))
                known = old.topics.get(name)
                if known is not None and chance.random() < 0.5:
                    image = old.with_topics(deleted=[name])
                else:
                    image = old.with_topics([Topic(name, known.id if known else random_uuid(), states)])
            else:
                image = MetadataImage(
                    topics=old.topics,
                    topics_by_id=old.topics_by_id,
                    collisions=old.collisions,
                    brokers={1: Broker(1, chance.choice(("a", "b")), {})},
                )
            view = TopicsView(image, view)
            subscribed.note_changed(None if chance.random() < 0.2 else image.changed_topics(old))
        if chance.random() < 0.5:
            wanted_topics = {
                name for names_of in members.values() for name in names_of
            } & view.image.topics.keys()
            assert existing.hash(view) == view.hash(wanted_topics)
            assert existing.topics(view) == {name: view.image.topics[name] for name in wanted_topics}
            assert existing.ids(view) == view.ids(wanted_topics)
            assert existing.num_partitions(view) == sum(
                len(view.image.topics[name].partitions) for name in wanted_topics
            )
        subscribed.check(members.values())


def test_topics_that_are_deleted_leave_no_hashes() -> None:
    image, view = MetadataImage(), TopicsView(MetadataImage())
    state = PartitionState(1, 0, (1,), (1,))
    for number in range(3_000):
        name = f"t-{number}"
        image = image.with_topics([Topic(name, random_uuid(), (state,))])
        view = TopicsView(image, view)
        view.hash([name])
        image = image.with_topics(deleted=[name])
        view = TopicsView(image, view)
    assert len(view._hashes) <= 1_001
