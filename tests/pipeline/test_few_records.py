"""The last record of a key in several partitions, in whatever order these are read."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")

from kafkapy.pipeline.tables.few_records import Record, last_among, last_within, later, survivors

Numbers = Sequence[int]


class Key:
    """The row of one key and what is kept beside the table, as `upserts.py` changes them."""

    def __init__(self, *, together: bool) -> None:
        """`together`: what is kept of a partition is put together."""
        self.row: Record | None = None
        self._kept: list[Record] = []
        self._together = together

    def read(self, batch: Sequence[Record]) -> None:
        def same(_: Record) -> str:
            return "k"

        last = last_within(batch, same)
        row = self.row
        if row is not None:
            last = [
                one.raised(row.timestamp)
                if one.partition == row.partition and one.offset > row.offset
                else one
                for one in last
            ]
        alive, _ = survivors(last, {"k": self._kept}, by_columns=False)
        for one in last_among(alive, same).values():
            if one.deleted or one.is_raised:
                self._keep(one._replace(timestamp=one.time))
            if row is None or later(one, row):
                self.row = None if one.deleted else one.by_itself

    def _keep(self, one: Record) -> None:
        others = [other for other in self._kept if self._together and other.partition == one.partition]
        for other in others:
            self._kept.remove(other)
            latest = max(one.timestamp, other.timestamp)
            one = one._replace(offset=max(one.offset, other.offset), timestamp=latest)
        self._kept.append(one)


def last_of_all(history: Sequence[Record]) -> int | None:
    """The number of the record that must be the row.

    A record is never older than one before it in its partition.
    """
    latest: dict[int, int] = {}
    found, greatest = history[0], (-1, -1)
    for one in history:
        time = latest[one.partition] = max(one.timestamp, latest.get(one.partition, one.timestamp))
        if (time, one.partition) >= greatest:
            found, greatest = one, (time, one.partition)
    return None if found.deleted else history.index(found)


def records(partitions: Numbers, times: Numbers, deleted: Sequence[bool]) -> list[Record]:
    return [
        Record(("k",), "k", partition, number, time, dead)
        for number, (partition, time, dead) in enumerate(zip(partitions, times, deleted, strict=True))
    ]


def orders(partitions: Numbers) -> Iterator[list[int]]:
    """In which batch each record can be read: in each partition, in the order of offsets."""
    count = len(partitions)
    for batches in itertools.product(range(count), repeat=count):
        pairs = itertools.combinations(range(count), 2)
        if {*batches} == {*range(max(batches) + 1)} and all(
            batches[one] <= batches[other] for one, other in pairs if partitions[one] == partitions[other]
        ):
            yield list(batches)


def check(history: Sequence[Record], batches: Numbers, *, together: bool) -> None:
    key = Key(together=together)
    read = [[one for one, at in zip(history, batches, strict=True) if at == number] for number in {*batches}]
    again = read[0]
    for batch in (*read, again):
        key.read(batch)
    expected = last_of_all(history)
    found = None if key.row is None else key.row.offset
    assert found == expected, (history, batches, together)


def test_every_order_of_two_records_in_each_of_two_partitions() -> None:
    partitions = (0, 0, 1, 1)
    listed = list(orders(partitions))
    assert len(listed) == 26
    together = itertools.cycle([False, True, True])
    for times in itertools.product(range(3), repeat=4):
        for deleted in itertools.product([False, True], repeat=4):
            history = records(partitions, times, deleted)
            for batches in listed:
                check(history, batches, together=next(together))


def test_orders_of_longer_histories_in_three_partitions() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    for _ in range(5_000):
        partitions = sorted(dice.choices(range(3), k=7))
        times, deleted = dice.choices(range(5), k=7), dice.choices([False, True], k=7)
        at = [dice.randrange(5) for _ in range(7)]
        for partition in range(3):
            places = [number for number, one in enumerate(partitions) if one == partition]
            for number, batch in zip(places, sorted(at[one] for one in places), strict=True):
                at[number] = batch
        check(records(partitions, times, deleted), at, together=dice.random() < 0.5)
