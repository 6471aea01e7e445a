"""The built-in assignors: balance, stickiness, ranges; and assignors of the operator."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest

import kafkapy
from kafkapy.assignors import Assignment, Assignor, AssignorError, GroupSpec, MemberSpec, Topics, TopicSpec
from kafkapy.broker.core import StartError
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.consumer.range_assignor import RangeAssignor
from kafkapy.groups.consumer.target import compute_targets, load_assignors
from kafkapy.groups.consumer.uniform_assignor import UniformAssignor
from kafkapy.metadata.image import Broker, PartitionState, Topic
from kafkapy.operator_class import UnusableClassError
from kafkapy.protocol.types import Uuid
from tests.groups.consumer.consumer_world import ConsumerWorld, join


def topic_id(number: int) -> Uuid:
    return bytes([number]) * 16


def topics(*counts: int) -> Topics:
    specs = [TopicSpec(topic_id(number), f"t{number}", count) for number, count in enumerate(counts)]
    return {spec.id: spec for spec in specs}


def group(subscriptions: Mapping[str, set[int]], before: Assignment | None = None) -> GroupSpec:
    members = {
        member_id: MemberSpec(
            None,
            None,
            frozenset(map(topic_id, subscribed)),
            {topic: frozenset(each) for topic, each in (before or {}).get(member_id, {}).items()},
        )
        for member_id, subscribed in subscriptions.items()
    }
    return GroupSpec(members, len({frozenset(each) for each in subscriptions.values()}) <= 1)


def assign(assignor: Assignor, spec: GroupSpec, known: Topics) -> Mapping[str, Mapping[Uuid, frozenset[int]]]:
    return compute_targets(assignor, spec, known)


def size(target: Mapping[Uuid, frozenset[int]]) -> int:
    return sum(map(len, target.values()))


def moved(before: Mapping[str, Mapping[Uuid, frozenset[int]]], after: Assignment) -> int:
    """How many partitions have another owner that had one before, and still could."""
    return sum(
        len(set(after.get(member_id, {}).get(topic, ())) ^ partitions)
        for member_id, target in before.items()
        for topic, partitions in target.items()
        if member_id in after
    )


@pytest.mark.parametrize("assignor", [UniformAssignor(), RangeAssignor()])
@pytest.mark.parametrize("seed", range(30))
def test_every_partition_of_a_subscribed_topic_has_one_owner_who_subscribes(
    assignor: Assignor, seed: int
) -> None:
    """`compute` asserts that an owner subscribes, and is the only one."""
    rng = random.Random(seed)
    known = topics(*(rng.randrange(1, 12) for _ in range(4)))
    subscriptions = {
        f"m{number}": set(rng.sample(range(4), rng.randrange(1, 5))) for number in range(rng.randrange(1, 7))
    }
    before: Mapping[str, Mapping[Uuid, frozenset[int]]] = {}
    for _ in range(8):
        spec = group(subscriptions, before)
        before = assign(assignor, spec, known)
        wanted = sum(known[topic_id(each)].num_partitions for each in set().union(*subscriptions.values()))
        assert sum(map(size, before.values())) == wanted
        if rng.random() < 0.5:
            subscriptions[f"m{rng.randrange(8)}"] = set(rng.sample(range(4), rng.randrange(1, 5)))
        elif len(subscriptions) > 1:
            del subscriptions[rng.choice(list(subscriptions))]


@pytest.mark.parametrize("members", [1, 2, 3, 5, 8])
def test_uniform_shares_differ_by_at_most_one(members: int) -> None:
    spec = group({f"m{number}": {0, 1} for number in range(members)})
    sizes = [size(target) for target in assign(UniformAssignor(), spec, topics(7, 4)).values()]
    assert max(sizes) - min(sizes) <= 1


def test_uniform_moves_no_more_than_a_new_member_gets() -> None:
    known = topics(12)
    subscriptions = {f"m{number}": {0} for number in range(3)}
    before = assign(UniformAssignor(), group(subscriptions), known)
    after = assign(UniformAssignor(), group({**subscriptions, "new": {0}}, before), known)
    assert size(after["new"]) == 3
    assert moved(before, after) == 3


def test_uniform_keeps_everything_if_nothing_changed() -> None:
    for subscriptions in ({"a": {0, 1}, "b": {0, 1}}, {"a": {0}, "b": {0, 1}, "c": {1}}):
        known = topics(5, 6)
        before = assign(UniformAssignor(), group(subscriptions), known)
        assert assign(UniformAssignor(), group(subscriptions, before), known) == before


def test_uniform_leaves_members_alone_that_keep_their_share() -> None:
    all_topics = {0, 1}
    before = assign(UniformAssignor(), group(dict.fromkeys("abcd", all_topics)), topics(8, 4))
    left = group(dict.fromkeys("abc", all_topics), before)
    fewer = topics(8, 1)  # three for each of the three
    after = UniformAssignor().assign(left, fewer)
    assert after["a"] is left.members["a"].assigned
    assert after["b"] is left.members["b"].assigned
    assert [size(target) for target in assign(UniformAssignor(), left, fewer).values()] == [3, 3, 3]


def test_uniform_balances_members_who_subscribe_to_different_topics() -> None:
    spec = group({"a": {0}, "b": {0, 1}, "c": {1}})
    sizes = Counter(
        {key: size(target) for key, target in assign(UniformAssignor(), spec, topics(6, 6)).items()}
    )
    assert sizes == {"a": 4, "b": 4, "c": 4}


def test_uniform_evens_out_what_members_had_before() -> None:
    before = {"a": {topic_id(0): frozenset(range(6))}, "b": {topic_id(1): frozenset({0})}}
    target = assign(UniformAssignor(), group({"a": {0}, "b": {0, 1}}, before), topics(6, 1))
    assert size(target["a"]) in (3, 4)
    assert target["b"][topic_id(1)] == {0}


def test_ranges_of_topics_with_the_same_partitions_are_the_same() -> None:
    target = assign(RangeAssignor(), group({"b": {0, 1}, "a": {0, 1}}), topics(5, 5))
    assert target == {
        "a": {topic_id(0): {0, 1, 2}, topic_id(1): {0, 1, 2}},
        "b": {topic_id(0): {3, 4}, topic_id(1): {3, 4}},
    }


def test_static_members_come_first_in_ranges() -> None:
    members = {
        "a": MemberSpec(None, None, frozenset({topic_id(0)})),
        "z": MemberSpec("i", None, frozenset({topic_id(0)})),
    }
    target = assign(RangeAssignor(), GroupSpec(members, True), topics(2))
    assert target == {"z": {topic_id(0): {0}}, "a": {topic_id(0): {1}}}


class AllToTheFirst(Assignor):
    """Gives everything to one member."""

    name = "all-to-the-first"

    def assign(self, group: GroupSpec, topics: Topics) -> Assignment:
        return {min(group.members): {each.id: range(each.num_partitions) for each in topics.values()}}


class Abstract(Assignor):
    name = "abstract"


class Nameless(Assignor):
    def assign(self, group: GroupSpec, topics: Topics) -> Assignment:
        return {}


class Racks(AllToTheFirst):
    """Remembers the racks that it was given."""

    name = "racks"

    def __init__(self) -> None:
        self.members: dict[str, str | None] = {}
        self.topics: dict[str, tuple[frozenset[str], ...]] = {}

    def assign(self, group: GroupSpec, topics: Topics) -> Assignment:
        self.members = {member_id: member.rack_id for member_id, member in group.members.items()}
        self.topics = {topic.name: topic.racks for topic in topics.values()}
        return super().assign(group, topics)


class SecondUniform(UniformAssignor):
    """Another assignor of the same name."""


class TwoOwners(AllToTheFirst):
    def assign(self, group: GroupSpec, topics: Topics) -> Assignment:
        return {each: {topic_id(0): [0]} for each in group.members}


class Unknown(AllToTheFirst):
    def assign(self, group: GroupSpec, topics: Topics) -> Assignment:
        return {min(group.members): {topic_id(0): [99]}}


class Broken(AllToTheFirst):
    def assign(self, group: GroupSpec, topics: Topics) -> Assignment:
        raise ZeroDivisionError("oops")


def test_an_assignor_of_the_operator_is_loaded_by_its_class() -> None:
    assignors = load_assignors([f"{__name__}:AllToTheFirst", "uniform"])
    assert list(assignors) == ["all-to-the-first", "uniform"]
    target = assign(assignors["all-to-the-first"], group({"b": {0}, "a": {0}}), topics(3))
    assert target == {"a": {topic_id(0): {0, 1, 2}}, "b": {}}


async def test_an_assignor_gets_the_racks_of_members_and_of_the_replicas_of_partitions() -> None:
    world = ConsumerWorld(
        GroupConfig(consumer_assignment_interval_ms=0, consumer_assignors=(f"{__name__}:Racks",))
    )
    await world.start()
    assignor = world.groups.consumers.progress.assignors["racks"]
    assert isinstance(assignor, Racks)
    world.topic("unused", 1)
    topic = Topic("t", topic_id(1), tuple(PartitionState(1, 0, held, held) for held in ((1, 2), (2,), (3,))))
    world.publish(world.image.with_topics([topic]))
    await world.heartbeat(join("b"))
    await world.settle()
    assert (assignor.members, assignor.topics) == ({"b": None}, {"t": ()}), "no broker has a rack"
    brokers = {1: Broker(1, "r1", {}), 2: Broker(2, "r2", {}), 3: Broker(3, None, {})}
    world.publish(replace(world.image, brokers=brokers))
    await world.heartbeat(join("a", rack_id="r2"))
    await world.settle()
    assert assignor.members == {"a": "r2", "b": None}
    assert assignor.topics == {"t": (frozenset({"r1", "r2"}), frozenset({"r2"}), frozenset())}
    assert world.group().targets["a"] == {topic.id: frozenset({0, 1, 2})}
    await world.restart()
    assignor = world.groups.consumers.progress.assignors["racks"]
    assert isinstance(assignor, Racks)
    await world.heartbeat(join("c", rack_id="r1"))
    await world.settle()
    assert assignor.members == {"a": "r2", "b": None, "c": "r1"}, "racks are stored"
    await world.groups.stop()


@pytest.mark.parametrize(
    "name",
    [
        "uniformly",
        "no.such.module:X",
        "os:getcwd",
        *(f"{__name__}:{name}" for name in ("Missing", "Nameless", "Abstract", "ConsumerWorld")),
    ],
)
def test_what_is_no_assignor_ends_the_start_with_one_line(name: str) -> None:
    setting = "group.consumer.assignors"
    with pytest.raises(StartError) as failure, kafkapy.Broker(config={setting: f"uniform,{name}"}):
        pass
    message = str(failure.value)
    assert message.startswith(f"{setting}={name}: ")
    assert "\n" not in message


def test_a_broker_without_an_assignor_does_not_start() -> None:
    with (
        pytest.raises(StartError, match=r"^group\.consumer\.assignors: it names no assignor; give uniform,"),
        kafkapy.Broker(config={"group.consumer.assignors": ""}),
    ):
        pass


def test_two_assignors_of_one_name_are_refused() -> None:
    with pytest.raises(UnusableClassError, match="SecondUniform: it has the name uniform of another one"):
        load_assignors(["uniform", f"{__name__}:SecondUniform"])
    assert list(load_assignors(["range", "uniform", "range"])) == ["range", "uniform"]


@pytest.mark.parametrize("assignor", [TwoOwners(), Unknown(), Broken()])
def test_an_assignment_that_cannot_be_is_refused(assignor: Assignor) -> None:
    with pytest.raises(AssignorError):
        assign(assignor, group({"a": {0}, "b": {0}}), topics(1))
