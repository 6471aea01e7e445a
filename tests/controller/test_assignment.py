"""Replicas are spread over brokers and racks."""

from __future__ import annotations

import random
from collections import Counter

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


def test_racks_do_not_count_when_a_broker_has_none() -> None:
    racks = {1: "a", 2: "a", 3: None}
    assignment = assign_replicas(racks, 30, 2, chance=random.Random(1))
    assert {1, 2} in [set(replicas) for replicas in assignment]


def test_more_replicas_than_brokers_is_refused() -> None:
    with pytest.raises(KafkaError) as caught:
        assign_replicas({1: None}, 1, 2, chance=random.Random(1))
    assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
