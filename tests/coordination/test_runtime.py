"""A coordinator's partitions, with a state machine that counts records."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import Collection

import pytest

from kafkapy.coordination.partitioning import partition_of
from kafkapy.coordination.runtime import MAX_BATCH_BYTES, CoordinatorRuntime, KeyValue
from kafkapy.metadata.image import MetadataImage
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.records import decode_records, iter_headers
from tests.groups.group_world import TurnedClock, TurnedTimers
from tests.groups.memory_log import MemoryLog, run_here

PARTITIONS = 4
KEYS = [
    next(key for n in range(1000) if partition_of(key := f"k{n}", PARTITIONS) == partition)
    for partition in range(PARTITIONS)
]
"""A key of each partition."""
BIG: list[KeyValue] = [(b"one", b"x" * (MAX_BATCH_BYTES - 100)), (b"two", b"x" * 1000)]
"""Records that take two batches."""


class Count:
    def __init__(self) -> None:
        self.keys: list[str] = []

    def add(self, batches: bytes) -> None:
        view = memoryview(batches)
        for position, header in iter_headers(view):
            self.keys += [(record.key or b"").decode() for record in decode_records(view, position, header)]

    def result(self) -> list[str]:
        return self.keys


class Counting:
    """How many records of each key are committed; a record's key is what decides where it lives."""

    def __init__(self) -> None:
        self.log = MemoryLog(PARTITIONS)
        self.clock = TurnedClock()
        self.timers = TurnedTimers(self.clock)
        self.runtime = CoordinatorRuntime(self, self.log, self.clock, self.timers, blocking=run_here)
        self.image = MetadataImage()
        self.log.created = self.appears
        self.counts: Counter[str] = Counter()

    def replay(self, name: str) -> Count:
        return Count()

    def install(self, loaded: list[str]) -> str:
        self.counts.update(loaded)
        return f"{len(loaded)} records"

    def unload(self, partitions: Collection[int]) -> None:
        for key in tuple(self.counts):
            if partition_of(key, PARTITIONS) in partitions:
                del self.counts[key]

    def appears(self) -> None:
        old, self.image = self.image, self.image.with_topics([self.log.entry()])
        self.runtime.metadata_changed(old, self.image)

    def disappears(self) -> None:
        old, self.image = self.image, MetadataImage()
        self.log.batches = []
        self.runtime.metadata_changed(old, self.image)

    def write(self, key: str) -> list[ErrorCode]:
        answers: list[ErrorCode] = []

        def committed(start: int, stop: int) -> None:
            self.counts[key] += stop - start

        self.runtime.write(key, [(key.encode(), b"")], answers.append, committed=committed)
        return answers

    def error_of(self, key: str) -> ErrorCode:
        try:
            self.runtime.require_active(key)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    async def time_passes(self, seconds: float) -> None:
        """And what falls due is done."""
        self.timers.advance(seconds)
        while reading := tuple(self.runtime._loading):
            await asyncio.wait(reading)
        self.timers.advance(0)


@pytest.fixture
async def counting() -> Counting:
    counting = Counting()
    await counting.runtime.ensure_topic()
    return counting


async def test_without_the_topic_this_broker_coordinates_nothing() -> None:
    counting = Counting()
    counting.runtime.open_topic()
    assert not counting.runtime.has_topic
    assert counting.error_of(KEYS[0]) is ErrorCode.NOT_COORDINATOR


async def test_a_partition_that_is_read_answers_when_it_has_been(counting: Counting) -> None:
    counting.write(KEYS[1])
    counting.runtime.close_topic()
    assert not counting.counts
    counting.runtime.open_topic()
    assert counting.runtime.is_loading
    assert counting.error_of(KEYS[1]) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert counting.runtime.is_active(KEYS[0]), "there is nothing to read in it"
    await counting.time_passes(0)
    assert counting.runtime.is_active(KEYS[1])
    assert counting.counts == {KEYS[1]: 1}


async def test_a_partition_that_is_lost_is_read_again(counting: Counting) -> None:
    for key in KEYS:
        counting.write(key)
    counting.log.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert counting.write(KEYS[2]) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert counting.error_of(KEYS[2]) is ErrorCode.NOT_COORDINATOR
    assert counting.counts[KEYS[2]] == 1, "it is given up once the event at hand is over"
    counting.timers.advance(0)
    assert counting.counts == {KEYS[0]: 1, KEYS[1]: 1, KEYS[3]: 1}
    assert counting.runtime.is_active(KEYS[3])
    counting.log.error = ErrorCode.NONE
    await counting.time_passes(1)
    assert counting.runtime.is_active(KEYS[2])
    assert counting.counts[KEYS[2]] == 1


@pytest.mark.parametrize("error", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE])
async def test_a_write_that_may_succeed_later_loses_no_partition(
    counting: Counting, error: ErrorCode
) -> None:
    counting.log.error = error
    assert counting.write(KEYS[0]) == [error]
    assert counting.runtime.is_active(KEYS[0])
    assert not counting.counts


async def test_writes_are_reported_in_their_order_when_they_are_committed(counting: Counting) -> None:
    counting.log.hold = True
    said: list[str] = []
    for name in ("first", "second"):
        counting.runtime.write(
            KEYS[0],
            [(name.encode(), b"")],
            lambda error, name=name: said.append(f"{name} is done"),  # type: ignore[misc]
            committed=lambda start, stop, name=name: said.append(f"{name} counts"),  # type: ignore[misc]
        )
    assert not said
    counting.log.release()
    assert said == ["first counts", "first is done"]
    counting.log.release()
    assert said[2:] == ["second counts", "second is done"]


@pytest.mark.parametrize("fails", [0, 1])
async def test_a_write_of_which_a_part_fails_counts_as_far_as_it_is_in_the_log(
    counting: Counting, fails: int
) -> None:
    counting.log.hold = True
    parts: list[tuple[int, int]] = []
    said: list[str] = []
    counting.runtime.write(
        KEYS[0],
        BIG,
        lambda error: said.append(error.name),
        committed=lambda start, stop: parts.append((start, stop)),
        undone=lambda: said.append("undone"),
    )
    for part in range(2):
        counting.log.release(ErrorCode.NOT_ENOUGH_REPLICAS if part == fails else ErrorCode.NONE)
    assert parts == [(1, 2) if fails == 0 else (0, 1)]
    assert said == ["undone", "NOT_ENOUGH_REPLICAS"], "once, and memory is in order before the client is told"


async def test_a_write_that_succeeds_is_not_undone(counting: Counting) -> None:
    said: list[str] = []
    counting.runtime.write(
        KEYS[0], BIG, lambda error: said.append(error.name), undone=lambda: said.append("undone")
    )
    assert said == ["NONE"]


@pytest.mark.parametrize("end", [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR])
async def test_a_write_from_before_a_partition_was_unloaded_leaves_memory_alone(
    counting: Counting, end: ErrorCode
) -> None:
    counting.log.hold = True
    answers = counting.write(KEYS[0])
    undone: list[str] = []
    counting.runtime.write(KEYS[0], [(b"k", b"")], answers.append, undone=lambda: undone.append("undone"))
    counting.disappears()
    await counting.log.create()
    counting.log.release(end)
    counting.log.release(end)
    assert answers == [end, end], "who waits is told all the same"
    assert not counting.counts
    assert not undone
    assert counting.runtime.is_active(KEYS[0]), "the topic that is there now is not lost"


async def test_a_partition_that_stays_unreadable_is_tried_ever_more_seldom(counting: Counting) -> None:
    counting.write(KEYS[0])
    counting.log.unreadable = OSError(errno.EIO, "a disk")
    counting.runtime.close_topic()
    counting.runtime.open_topic()
    for _ in range(60):
        await counting.time_passes(1)
    assert not counting.runtime.is_loading, "a question about all partitions is answered"
    assert counting.log.reads == 1 + len([1, 3, 7, 15, 31]), "and the next after 61 s"
    counting.log.unreadable = None
    await counting.time_passes(30)
    assert counting.counts == {KEYS[0]: 1}


async def test_stopping_keeps_no_timer_and_no_task(counting: Counting) -> None:
    counting.write(KEYS[0])
    counting.log.error = ErrorCode.KAFKA_STORAGE_ERROR
    counting.write(KEYS[1])
    counting.runtime.close_topic()
    counting.runtime.open_topic()
    await counting.runtime.stop()
    assert counting.timers.pending == 0
    assert not counting.runtime._loading
    assert not counting.counts
