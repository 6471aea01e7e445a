"""The simple assignor gives every partition members, in equal shares.

Members keep what they have.
"""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest

from kafkapy.groups.share.member import Partitions
from kafkapy.groups.share.simple_assignor import assign

A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))


def sizes(assignment: dict[str, Partitions]) -> list[int]:
    return sorted(sum(map(len, own.values())) for own in assignment.values())


def sharers(assignment: dict[str, Partitions]) -> Counter[tuple[bytes, int]]:
    return Counter(
        (topic, each) for own in assignment.values() for topic, found in own.items() for each in found
    )


@pytest.mark.parametrize(("members", "partitions"), [(1, 5), (2, 5), (5, 5), (7, 5), (5, 1), (3, 2)])
def test_shares_are_equal(members: int, partitions: int) -> None:
    found = assign({f"m{n}": [A] for n in range(members)}, {}, {A: frozenset(range(partitions))})
    sharing = -(-members // partitions)
    assert set(sharers(found).values()) == {sharing}
    assert sizes(found)[-1] - sizes(found)[0] <= 1


def test_members_keep_what_they_have() -> None:
    before = assign({"a": [A], "b": [A]}, {}, {A: frozenset(range(6))})
    after = assign({"a": [A], "b": [A], "c": [A]}, before, {A: frozenset(range(6))})
    assert after["a"][A] <= before["a"][A]
    assert after["b"][A] <= before["b"][A]
    assert sizes(after) == [2, 2, 2]


@pytest.mark.parametrize("seed", range(200))
def test_every_partition_that_somebody_may_have_is_assigned(seed: int) -> None:
    chance = random.Random(seed)
    assignable = {topic: frozenset(range(chance.randint(0, 6))) for topic in (A, B, C)}
    found: dict[str, Partitions] = {}
    for _ in range(5):
        members = {
            f"m{n}": chance.sample((A, B, C), chance.randint(1, 3)) for n in range(chance.randint(1, 9))
        }
        found = assign(members, found, assignable)
        assert found.keys() == members.keys()
        shared = sharers(found)
        for topic in (A, B, C):
            subscribers = sum(topic in own for own in members.values())
            for each in assignable[topic]:
                assert bool(subscribers) == bool(shared[topic, each])
        for member_id, own in found.items():
            for topic, partitions in own.items():
                assert topic in members[member_id]
                assert partitions <= assignable[topic]


def test_the_time_is_linear_in_the_subscriptions() -> None:
    chance = random.Random(1)

    def seconds(count: int) -> float:
        """The CPU time that 20 members take who subscribe to most of so many topics."""
        topics = [number.to_bytes(16, "big") for number in range(count)]
        members = {f"m{number}": chance.sample(topics, count * 9 // 10) for number in range(20)}
        assignable = {topic: frozenset({0}) for topic in topics}
        begin = time.thread_time()
        found = assign(members, assign(members, {}, assignable), assignable)
        taken = time.thread_time() - begin
        assert sum(sharers(found).values()) == 20 * (count * 9 // 10)
        return taken

    few, many = (min(seconds(count) for _ in range(3)) for count in (100, 800))
    assert many < 24 * few, "8 times as long if it is linear, 50 times if all that members had is walked"
