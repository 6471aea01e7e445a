"""A random schedule of everything that happens to a share partition.

A model of each record runs beside it.

The model knows single offsets, and nothing of runs and batches: only what may never happen.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from kafkapy.protocol.errors import KafkaError
from kafkapy.share.in_flight import RecordState
from kafkapy.share.share_partition import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    BatchSpan,
    ShareLimits,
    SharePartition,
    StateChange,
    StoredBatch,
)
from kafkapy.share.state import merge

STEPS = 3000
MEMBERS = ("a", "b", "c")


@dataclass
class Log:
    """Batches, some of which compaction removes."""

    batches: list[BatchSpan]
    start: int = 0
    end: int = 0

    def append(self, size: int) -> None:
        self.batches.append(BatchSpan(self.end, self.end + size - 1))
        self.end += size

    def read(self, offset: int, count: int) -> list[BatchSpan]:
        return [batch for batch in self.batches if batch.last_offset >= offset][:count]


class Simulation:
    """A share partition, the log, the stored state, and what each member believes to have."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.limits = ShareLimits(delivery_count=self.random.choice((2, 3, 5)), records=60, lock_seconds=30)
        self.log = Log([])
        self.now = 0.0
        self.stored: tuple[StoredBatch, ...] = ()
        self.stored_start = 0
        self.held: dict[str, dict[int, float]] = {member: {} for member in MEMBERS}
        """The offsets that each member has, with the end of the lock as it was told."""
        self.accepted: set[int] = set()
        """What was acknowledged, and stored: it must never be delivered again."""
        self.counts: dict[int, int] = {}
        self.pending: list[tuple[StateChange, int]] = []
        self.partition = self.new_partition()

    def new_partition(self) -> SharePartition:
        partition = SharePartition(lambda: self.limits)
        partition.restore(self.stored_start, self.stored)
        return partition

    def step(self) -> None:
        roll = self.random.random()
        if roll < 0.15:
            self.log.append(self.random.randint(1, 8))
        elif roll < 0.45:
            self.acquire(self.random.choice(MEMBERS))
        elif roll < 0.7:
            self.acknowledge(self.random.choice(MEMBERS))
        elif roll < 0.85:
            self.settle()
        elif roll < 0.9:
            self.now += self.random.uniform(0, 20)
            self.store(self.partition.expire(self.now))
        elif roll < 0.93:
            self.leave(self.random.choice(MEMBERS))
        elif roll < 0.95:
            self.trim()
        elif roll < 0.96 and self.log.batches:
            self.log.batches.pop(self.random.randrange(len(self.log.batches)))
        elif roll < 0.97:
            self.limits = replace(self.limits, records=self.random.choice((5, 60, 100)))
        elif roll < 0.98:
            self.restart()
        self.partition.check()

    def acquire(self, member: str) -> None:
        partition = self.partition
        offset = partition.fetch_offset()
        spans = self.log.read(offset, self.random.randint(1, 6))
        exact, most = self.random.random() < 0.5, self.random.randint(1, 20)
        is_full, next_offset = partition.records_in_flight >= self.limits.records, partition.next_offset
        ranges = partition.acquire(
            member,
            spans,
            fetch_offset=offset,
            max_records=most,
            batch_size=self.random.randint(1, 10),
            now=self.now,
            exact=exact,
        )
        total = 0
        for first, last, count in ranges:
            for each in range(first, last + 1):
                total += 1
                assert each not in self.accepted, f"{each} was acknowledged, and is delivered again"
                for other, offsets in self.held.items():
                    assert offsets.get(each, self.now) <= self.now or other == member, (
                        f"{each} has two owners"
                    )
                assert count >= self.counts.get(each, 0) or count == 1
                assert count <= self.limits.delivery_count
                self.counts[each] = count
                self.held[member][each] = self.now + self.limits.lock_seconds
        if exact:
            assert total <= most
        assert not is_full or partition.next_offset == next_offset, "nothing new beyond the limit"

    def acknowledge(self, member: str) -> None:
        offsets = sorted(self.held[member])
        if not offsets:
            return
        first = self.random.choice(offsets)
        last = min(first + self.random.randint(0, 6), offsets[-1])
        while last not in self.held[member]:
            last -= 1
        kinds = (ACCEPT, ACCEPT, RELEASE, REJECT, GAP, RENEW)
        count = 1 if self.random.random() < 0.5 else last - first + 1
        types = [self.random.choice(kinds) for _ in range(count)]
        try:
            change = self.partition.acknowledge(member, [Acknowledgement(first, last, types)], now=self.now)
        except KafkaError:
            for each in range(first, last + 1):
                self.held[member].pop(each, None)  # the client gives up on all of them
            self.leave(member)
            return
        for each in range(first, last + 1):
            kind = types[0] if len(types) == 1 else types[each - first]
            if kind == RENEW and each in self.held[member]:
                self.held[member][each] = self.now + self.limits.lock_seconds
            elif kind != RENEW:
                self.held[member].pop(each, None)
        self.pending.append((change, self.partition.start_offset))

    def settle(self) -> None:
        """Store the oldest change, or fail to."""
        if not self.pending:
            return
        change, start = self.pending.pop(0)
        if self.random.random() < 0.2:
            self.partition.failed(change, self.now)
            return
        self.stored_start = max(self.stored_start, start)
        self.store(change.batches)
        for first, last, state, _ in change.batches:
            if state in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED):
                self.accepted.update(range(first, last + 1))
        self.partition.committed(change)

    def store(self, batches: Sequence[StoredBatch]) -> None:
        self.stored = merge(self.stored, batches, self.stored_start)

    def leave(self, member: str) -> None:
        change = self.partition.release(member)
        self.held[member].clear()
        self.pending.append((change, self.partition.start_offset))

    def trim(self) -> None:
        """Delete the first records of the log."""
        if self.log.batches and self.random.random() < 0.5:
            self.log.start = self.log.batches.pop(0).last_offset + 1
            self.partition.log_started_at(self.log.start)

    def restart(self) -> None:
        """The leader starts again, and knows only what was stored."""
        self.pending.clear()
        self.partition = self.new_partition()
        self.partition.log_started_at(self.log.start)
        for offsets in self.held.values():
            offsets.clear()
        self.counts.clear()

    def drain(self) -> None:
        """Without further trouble every record is accepted in the end."""
        self.limits = replace(self.limits, records=100)
        for _ in range(3000):
            while self.pending:
                change, start = self.pending.pop(0)
                self.stored_start = max(self.stored_start, start)
                self.store(change.batches)
                self.partition.committed(change)
            self.now += 31
            self.store(self.partition.expire(self.now))
            offset = self.partition.fetch_offset()
            spans = self.log.read(offset, 5)
            if not spans:
                break
            ranges = self.partition.acquire(
                "a", spans, fetch_offset=offset, max_records=50, batch_size=50, now=self.now
            )
            said = [Acknowledgement(first, last, [ACCEPT]) for first, last, _ in ranges]
            change = self.partition.acknowledge("a", said, now=self.now)
            self.pending.append((change, self.partition.start_offset))
            self.partition.check()
        last = max((batch.last_offset for batch in self.log.batches), default=-1)
        assert self.partition.start_offset > last, "nothing is left behind"


@pytest.mark.parametrize("seed", range(12))
def test_no_record_has_two_owners_or_comes_back(seed: int) -> None:
    simulation = Simulation(seed)
    for _ in range(STEPS):
        simulation.step()
    simulation.drain()
