"""What clients were promised, checked at each thing that they see.

A client sees a state that held at some time between its request and the answer. So an answer is compared with
what was known when its request was sent:

    a record is at one offset, an offset has one record, and its content is as it was sent
    the records of a producer in a partition are in the order in which they were sent
    there is no gap between offsets: an acknowledged record that is gone leaves one, or another record there
    the end of a partition (its high watermark) is never below what was acknowledged, read or told before; of
    several brokers, never below what the same reader knows
    a committed offset is the last one that was acknowledged, or one whose commit was not answered

The logs of these runs are neither compacted nor cut at their start, and have no transactions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from tests.simulation.world import World

Partition = tuple[str, int]


class Sent(NamedTuple):
    """A record, by its producer and number; numbers rise."""

    producer: str
    number: int


class Promises:
    """What is known of all partitions and groups."""

    def __init__(self, world: World, leader: Callable[[Partition], int] | None = None) -> None:
        """`leader` tells which broker leads a partition, as the metadata tree has it.

        Without it there is only one broker. With several, a client with old metadata may ask a leader that
        does not know yet that it is none any more: it tells readers an older end, and takes the next batch of
        a producer for one out of order.
        """
        self._world = world
        self._leader = leader
        self.at_next_acknowledgement: list[Callable[[], None]] = []
        """Called once, when a producer is told the next time that a record is written."""
        self._contents: dict[Sent, tuple[Partition, int]] = {}
        """Where each record was sent, and its checksum."""
        self._records: dict[Partition, dict[int, Sent]] = defaultdict(dict)
        """The records by offset, as acknowledged or read."""
        self._offsets: dict[Sent, int] = {}
        self._ends: dict[Partition, int] = defaultdict(int)
        """The ends that are known: every partition reaches at least so far."""
        self._acked: set[Sent] = set()
        self._committed: dict[str, int] = {}
        self._unanswered: dict[str, list[int]] = defaultdict(list)
        """The commits that may take place at any time."""

    # --- records --------------------------------------------------------------------------------------------

    def sent(self, record: Sent, partition: Partition, checksum: int) -> None:
        """A producer hands a record over."""
        self._contents[record] = partition, checksum

    def acknowledged(self, record: Sent, offset: int) -> None:
        """A producer was told that a record is written."""
        partition, _ = self._contents[record]
        self._acked.add(record)
        calls, self.at_next_acknowledgement = self.at_next_acknowledgement, []
        for call in calls:
            call()
        self._place(record, partition, offset, "acknowledged")

    def is_led_by(self, broker: int, partition: Partition) -> bool:
        """Whether a broker is the latest leader of a partition.

        Then it has every acknowledged record.
        """
        return self._leader is None or self._leader(partition) == broker

    def read(self, reader: str, partition: Partition, offset: int, record: Sent, checksum: int) -> None:
        """A reader was given a record."""
        if self._contents.get(record) != (partition, checksum):
            self._broken(f"{reader} read {record} at {partition}@{offset}, which was not sent so")
        self._place(record, partition, offset, f"read by {reader}")

    def end(self, partition: Partition) -> int:
        """The end that every answer must reach; to be asked when a request is sent."""
        return self._ends[partition] if self._leader is None else 0

    def known_end(self, partition: Partition) -> int:
        """The offset that the partition is known to reach, though not every answer may tell it yet."""
        return self._ends[partition]

    def told_end(self, who: str, partition: Partition, known: int, offset: int) -> None:
        """A client was told the high watermark, and `known` was known when it asked."""
        if offset < known:
            self._broken(f"{who} was told that {partition} ends at {offset}, and it had reached {known}")
        self._ends[partition] = max(self._ends[partition], offset)

    def check_all_read(self, partition: Partition, end: int) -> None:
        """Judge when everything below `end` was read: no record is missing or out of order."""
        records = self._records[partition]
        missing = [offset for offset in range(end) if offset not in records]
        if missing:
            self._broken(f"{partition} has nothing at {missing[:10]}, and ends at {end}")
        for record in sorted(self._acked):
            if self._contents[record][0] == partition and self._offsets[record] >= end:
                self._broken(
                    f"{record}, acknowledged at {self._offsets[record]}, is gone: {partition} ends at {end}"
                )
        newest: dict[str, int] = {}
        for offset in range(end):
            record = records[offset]
            if newest.get(record.producer, -1) >= record.number:
                self._broken(f"{record} at {partition}@{offset} comes after {newest[record.producer]}")
            newest[record.producer] = record.number

    def _place(self, record: Sent, partition: Partition, offset: int, how: str) -> None:
        there = self._records[partition].setdefault(offset, record)
        if there != record:
            self._broken(f"{record} was {how} at {partition}@{offset}, where {there} was")
        before = self._offsets.setdefault(record, offset)
        if before != offset:
            self._broken(f"{record} was {how} at {partition}@{offset}, and is at {before}")
        self._ends[partition] = max(self._ends[partition], offset + 1)

    # --- committed offsets ----------------------------------------------------------------------------------

    def commit_sent(self, group: str, offset: int) -> None:
        """A consumer commits an offset."""
        self._unanswered[group].append(offset)

    def commit_acknowledged(self, group: str, offset: int) -> None:
        """It was told that this is done."""
        self._unanswered[group].remove(offset)
        self._committed[group] = offset

    def commit_fetched(self, group: str, offset: int) -> None:
        """It was told the committed offset, -1 for none; it commits nothing meanwhile."""
        if offset != self._committed.get(group, -1) and offset not in self._unanswered[group]:
            known = self._committed.get(group, -1)
            self._broken(f"the offset of {group} is {offset}; {known} was committed")

    def _broken(self, what: str) -> None:
        self._world.failed(what)
