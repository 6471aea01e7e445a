"""How work is split: every offset once, splits of one size, small partitions together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkapy.log.splits import OffsetRange, group
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.log.txn_index import AbortedTxn

MB = 1 << 20


def ranges(partition: int, *sizes: int) -> list[OffsetRange]:
    """Neighbouring ranges of so many MB, of as many offsets."""
    found = []
    at = 0
    for size in sizes:
        found.append(OffsetRange(TopicPartition("t", partition), "/t", at, at + size, size * MB))
        at += size
    return found


def places(splits: list[list[OffsetRange]]) -> list[list[tuple[int, int, int]]]:
    return [[(each.topic_partition.partition, each.start, each.end) for each in split] for split in splits]


def test_nothing_is_no_work() -> None:
    assert group([]) == []


def test_small_partitions_share_a_task() -> None:
    small = [each for partition in range(50) for each in ranges(partition, 1)]
    assert [len(split) for split in group(small, cores=2)] == [32, 18]


def test_a_large_partition_has_work_for_each_core_twice() -> None:
    assert places(group(ranges(0, *[8] * 32), cores=2)) == [
        [(0, 0, 64)],
        [(0, 64, 128)],
        [(0, 128, 192)],
        [(0, 192, 256)],
    ]


def test_a_medium_topic_has_one_task_for_each_core() -> None:
    medium = [each for partition in range(4) for each in ranges(partition, 8, 8, 8, 5)]
    assert [sum(each.nbytes for each in split) // MB for split in group(medium, cores=2)] == [58, 58]


def test_more_tasks_are_made_where_they_are_asked_for() -> None:
    few = ranges(0, *[8] * 6)
    assert len(group(few, cores=1)) == 1
    assert len(group(few, cores=1, at_least=3)) == 3
    assert len(group(few, cores=1, at_least=6)) == 6
    assert len(group(few, cores=1, at_least=60)) == 6


def test_neighbours_that_are_joined_have_the_transactions_of_both() -> None:
    first, second = AbortedTxn(1, 0, 5, 6), AbortedTxn(2, 9, 12, 13)
    one, two = ranges(0, 8, 8)
    one = OffsetRange(one.topic_partition, one.directory, one.start, one.end, one.nbytes, (first, second))
    two = OffsetRange(two.topic_partition, two.directory, two.start, two.end, two.nbytes, (second,))
    [[joined]] = group([one, two], cores=1)
    assert (joined.start, joined.end, joined.nbytes) == (0, 16, 16 * MB)
    assert joined.aborted == (first, second)


@given(
    st.lists(st.lists(st.integers(1, 40), max_size=10), max_size=8), st.integers(1, 16), st.integers(1, 90)
)
def test_every_offset_is_in_one_split_and_in_order(
    partitions: list[list[int]], cores: int, at_least: int
) -> None:
    everything = [each for number, sizes in enumerate(partitions) for each in ranges(number, *sizes)]
    splits = group(everything, cores=cores, at_least=at_least)
    assert all(splits)
    assert len(splits) >= min(at_least, len(everything))
    found = [each for split in splits for each in split]
    offsets = [(each.topic_partition, offset) for each in found for offset in range(each.start, each.end)]
    expected = [
        (each.topic_partition, offset) for each in everything for offset in range(each.start, each.end)
    ]
    assert offsets == expected
    assert sum(each.nbytes for each in found) == sum(each.nbytes for each in everything)
