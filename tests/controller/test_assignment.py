"""Replicas are spread over brokers and racks."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.controller.assignment import assign_replicas
from kafkapy.protocol.errors import ErrorCode, KafkaError


@given(
    brokers=st.sets(st.integers(0, 50), min_size=1, max_size=9),
    partitions=st.integers(1, 40),
    start=st.integers(0, 9),
    seed=st.integers(),
    data=st.data(),
)
def test_replicas_are_distinct_brokers_and_leaders_are_spread_evenly(
    brokers: set[int], partitions: int, start: int, seed: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    assignment = assign_replicas(
        dict.fromkeys(brokers), partitions, factor, start_partition=start, chance=random.Random(seed)
    )
    assert len(assignment) == partitions
    for replicas in assignment:
        assert len(set(replicas)) == len(replicas) == factor
        assert brokers.issuperset(replicas)
    leaders = Counter(replicas[0] for replicas in assignment)
    counts = [leaders[broker] for broker in brokers]
    assert max(counts) - min(counts) <= 1


@given(
    racks=st.lists(st.sampled_from("abc"), min_size=1, max_size=9),
    partitions=st.integers(1, 30),
    seed=st.integers(),
    data=st.data(),
)
def test_replicas_are_in_as_many_racks_as_there_can_be(
    racks: list[str], partitions: int, seed: int, data: st.DataObject
) -> None:
    by_broker = dict(enumerate(racks))
    factor = data.draw(st.integers(1, len(racks)))
    for replicas in assign_replicas(by_broker, partitions, factor, chance=random.Random(seed)):
        assert len(set(replicas)) == factor
        assert len({by_broker[broker] for broker in replicas}) == min(factor, len(set(racks)))


class Chosen(random.Random):
    """Chance that is none: the start, then the shift."""

    def __init__(self, *numbers: int) -> None:
        super().__init__()
        self._numbers = list(numbers)

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return self._numbers.pop(0)


def test_followers_are_shifted_after_each_round() -> None:
    """The table in Kafka's AdminUtils."""
    assert assign_replicas(dict.fromkeys(range(5)), 10, 3, chance=Chosen(0, 0)) == [
        *((0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1)),
        *((0, 2, 3), (1, 3, 4), (2, 4, 0), (3, 0, 1), (4, 1, 2)),
    ]
    assert assign_replicas(dict.fromkeys(range(5)), 2, 3, chance=Chosen(4, 2)) == [(4, 2, 3), (0, 3, 4)]


def test_racks_alternate_and_followers_are_shifted_after_each_round() -> None:
    """The example in Kafka's AdminUtils."""
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert assign_replicas(racks, 7, 3, chance=Chosen(0, 0)) == [
        *((0, 3, 1), (3, 1, 5), (1, 5, 4), (5, 4, 2), (4, 2, 0), (2, 0, 3)),
        (0, 4, 2),
    ]


def later(racks: Mapping[int, str | None], partitions: int, factor: int, **place: int) -> list[Any]:
    """The replicas of partitions that a topic gets later: nothing is left to chance."""
    return assign_replicas(racks, partitions, factor, chance=Chosen(), **place)


def test_later_partitions_continue_the_round_of_the_first_one() -> None:
    """What Apache Kafka 3.9.1 answers."""
    brokers = dict.fromkeys((1, 2, 3, 5))
    found = later(brokers, 3, 3, start_partition=3, continues=2)
    assert found == [(1, 3, 5), (2, 1, 3), (3, 2, 5)]
    # Broker 4 is gone: the next one counts. After broker 6 there is none.
    assert later(brokers, 1, 2, start_partition=3, continues=4) == [(3, 5)]
    assert later(brokers, 1, 2, start_partition=3, continues=6) == [(5, 1)]
    racks = dict(zip(range(1, 6), "ababb", strict=True))
    assert later(racks, 8, 3, start_partition=4, continues=3) == [
        *((2, 3, 4), (3, 2, 4), (4, 3, 5), (5, 3, 4), (1, 4, 5), (2, 1, 3), (3, 4, 5), (4, 1, 2)),
    ]


def test_a_rack_of_some_brokers_only_is_refused_as_apache_kafka_does() -> None:
    with pytest.raises(KafkaError, match="Not all brokers have rack information") as caught:
        assign_replicas({1: "a", 2: "a", 3: None}, 30, 2, chance=random.Random(1))
    assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_more_replicas_than_brokers_is_refused() -> None:
    with pytest.raises(KafkaError) as caught:
        assign_replicas({1: None}, 1, 2, chance=random.Random(1))
    assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
