"""What a share coordinator keeps of a share partition.

Its batches are merged, whatever their order.
"""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from kafkapy.share.in_flight import RecordState
from kafkapy.share.share_partition import StoredBatch
from kafkapy.share.state import merge


@pytest.mark.parametrize("seed", range(20))
def test_of_two_batches_with_an_offset_the_one_that_went_further_counts(seed: int) -> None:
    chance = random.Random(seed)
    merged: tuple[StoredBatch, ...] = ()
    expected: dict[int, tuple[int, int]] = {}
    start = 0
    for _ in range(40):
        start += chance.choice((0, 0, 3))
        more = _some_batches(chance, start)
        merged = merge(merged, more, start)
        for first, last, state, count in more:
            for offset in range(first, last + 1):
                expected[offset] = max(expected.get(offset, (0, 0)), (count, state))
        expected = {offset: rank for offset, rank in expected.items() if offset >= start}
        assert _by_offset(merged) == expected
        for one, other in pairwise(merged):
            assert one.last < other.first
            assert one.last + 1 < other.first or one[2:] != other[2:], "neighbours that are alike are joined"


def _some_batches(chance: random.Random, start: int) -> list[StoredBatch]:
    """A few batches in any order, some of them next to each other."""
    batches = []
    first = start + chance.randrange(-5, 30)
    for _ in range(chance.randrange(1, 6)):
        last = first + chance.randrange(5)
        batches.append(
            StoredBatch(max(first, 0), max(last, 0), chance.choice(list(RecordState)), chance.randint(1, 3))
        )
        first = last + 1 + chance.choice((0, 0, 2))
    if chance.random() < 0.3:
        chance.shuffle(batches)
    return batches


def _by_offset(batches: tuple[StoredBatch, ...]) -> dict[int, tuple[int, int]]:
    return {
        offset: (count, state) for first, last, state, count in batches for offset in range(first, last + 1)
    }
