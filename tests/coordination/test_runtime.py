"""A coordinator's partitions, with a state machine that counts records."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import pytest

from kafkapy.coordination.partitioning import partition_of
from kafkapy.coordination.pending_write import PendingWrite, report
from kafkapy.coordination.runtime import MAX_BATCH_BYTES, CoordinatorRuntime
from kafkapy.coordination.topic_log import Done
from kafkapy.metadata.image import MetadataImage
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.plain_batch import KeyValue
from kafkapy.protocol.records import decode_records, iter_headers
from tests.groups.memory_log import MemoryLog, lead_all
from tests.loop.turned_clock import TurnedClock, TurnedTimers

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
    """How many records of each key are committed.

    A record's key decides where it lives.
    """

    def __init__(self, log: MemoryLog | None = None, *, leads: bool = True) -> None:
        self.log = log or MemoryLog(PARTITIONS)
        self.clock = TurnedClock()
        self.timers = TurnedTimers(self.clock)
        self.runtime = CoordinatorRuntime(self, self.log, self.clock, self.timers, blocking=self.call)
        if leads:
            lead_all(self.runtime, self.log)
        self.pause: asyncio.Event | None = None
        """What blocking calls wait for, if anything."""
        self.image = MetadataImage()
        self.log.created = self.appears
        self.counts: Counter[str] = Counter()

    async def call(self, call: Callable[..., Any], *args: Any) -> Any:
        if self.pause is not None:
            await self.pause.wait()
        return call(*args)

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

    def leads(self, partition: int, epoch: int) -> None:
        self.runtime.leadership_changed(partition, leads=True, leader_epoch=epoch)

    def follows(self, partition: int, epoch: int) -> None:
        self.runtime.leadership_changed(partition, leads=False, leader_epoch=epoch)

    def write(self, key: str) -> list[ErrorCode]:
        answers: list[ErrorCode] = []

        def committed(start: int, stop: int) -> None:
            self.counts[key] += stop - start

        self.write_records(key, [(key.encode(), b"")], answers.append, committed=committed)
        return answers

    def write_records(self, key: str, records: list[KeyValue], done: Done, **options: Any) -> None:
        """Write records, and call `done` with the outcome."""
        report(self.runtime.write(key, records, **options), done)

    def error_of(self, key: str) -> ErrorCode:
        try:
            self.runtime.require_active(key)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    async def time_passes_on_the_loop(self) -> None:
        """And what is ready runs."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def time_passes(self, seconds: float) -> None:
        """And what falls due is done."""
        self.timers.advance(seconds)
        while reading := tuple(self.runtime.loads):
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


async def test_partitions_are_read_one_after_the_other(counting: Counting) -> None:
    for key in KEYS:
        counting.write(key)
    counting.runtime.close_topic()
    before = counting.log.reads
    counting.pause = asyncio.Event()
    counting.runtime.open_topic()
    await counting.time_passes_on_the_loop()
    assert counting.log.reads == before + 1
    counting.pause.set()
    await counting.time_passes(0)
    assert counting.log.reads == before + PARTITIONS
    assert counting.counts == dict.fromkeys(KEYS, 1)


async def test_a_partition_that_waits_for_commits_holds_up_no_other() -> None:
    is_committed = asyncio.Event()

    class UncommittedLog(MemoryLog):
        async def wait_for_commits(self, partition: int) -> int:
            if partition == 0:
                await is_committed.wait()
            return await super().wait_for_commits(partition)

    counting = Counting(UncommittedLog(PARTITIONS))
    await counting.runtime.ensure_topic()
    for key in KEYS:
        counting.write(key)
    counting.runtime.close_topic()
    counting.runtime.open_topic()
    await counting.time_passes_on_the_loop()
    assert counting.runtime.active_partitions == [1, 2, 3]
    is_committed.set()
    await counting.time_passes(0)
    assert counting.counts == dict.fromkeys(KEYS, 1)


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
        counting.write_records(
            KEYS[0],
            [(name.encode(), b"")],
            lambda error, name=name: said.append(f"{name} is done"),  # type: ignore[misc]
            committed=lambda start, stop, name=name: said.append(f"{name} counts"),
        )
    assert not said
    counting.log.release()
    assert said == ["first counts", "first is done"]
    counting.log.release()
    assert said[2:] == ["second counts", "second is done"]


async def test_the_outcome_of_a_write_is_returned_if_it_is_known_at_once(counting: Counting) -> None:
    records: list[KeyValue] = [(b"k", b"")]
    assert counting.runtime.write(KEYS[0], records) is ErrorCode.NONE
    counting.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert counting.runtime.write(KEYS[0], records) is ErrorCode.NOT_ENOUGH_REPLICAS
    counting.log.error, counting.log.hold = ErrorCode.NONE, True
    pending = counting.runtime.write(KEYS[0], records)
    assert isinstance(pending, PendingWrite)
    said: list[str] = []
    pending.when_done(lambda error: said.append(f"first {error.name}"))
    pending.when_done(lambda error: said.append(f"second {error.name}"))
    counting.log.release(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert said == ["first NOT_ENOUGH_REPLICAS", "second NOT_ENOUGH_REPLICAS"]


@pytest.mark.parametrize("fails", [0, 1])
async def test_a_write_of_which_a_part_fails_counts_as_far_as_it_is_in_the_log(
    counting: Counting, fails: int
) -> None:
    counting.log.hold = True
    parts: list[tuple[int, int]] = []
    said: list[str] = []
    counting.write_records(
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


async def test_a_write_with_a_record_that_the_log_does_not_take_leaves_nothing_in_it(
    counting: Counting,
) -> None:
    """Half of the write would have to be read back.

    Meanwhile no key of the partition would be available.
    """
    said: list[str] = []
    counting.log.hold = True
    counting.write_records(
        KEYS[0],
        [*BIG, (b"three", b"x" * counting.log.largest)],
        lambda error: said.append(error.name),
        undone=lambda: said.append("undone"),
    )
    assert said == ["undone", "MESSAGE_TOO_LARGE"]
    assert not counting.log._held
    assert counting.runtime.is_active(KEYS[0])


async def test_batches_are_as_large_as_the_log_takes(counting: Counting) -> None:
    said: list[str] = []
    counting.log.largest = 1000
    counting.write_records(KEYS[0], [(b"k", b"x" * 100)] * 50, lambda error: said.append(error.name))
    assert said == ["NONE"]
    assert len(counting.log.batches[0]) > 5
    assert max(map(len, counting.log.batches[0])) <= 1000


async def test_a_write_that_succeeds_is_not_undone(counting: Counting) -> None:
    said: list[str] = []
    counting.write_records(
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
    counting.write_records(KEYS[0], [(b"k", b"")], answers.append, undone=lambda: undone.append("undone"))
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


async def test_a_load_that_was_given_up_adds_nothing_later(counting: Counting) -> None:
    """It would add what it has read to what was written since."""
    counting.write(KEYS[0])
    counting.runtime.close_topic()
    pause = counting.pause = asyncio.Event()
    counting.runtime.open_topic()
    await counting.time_passes_on_the_loop()
    counting.runtime.reload(KEYS[0])
    counting.timers.advance(0)
    await counting.time_passes_on_the_loop()
    counting.pause = None
    counting.timers.advance(1)
    await counting.time_passes_on_the_loop()
    assert counting.runtime.is_active(KEYS[0])
    counting.write(KEYS[0])
    pause.set()
    await counting.time_passes_on_the_loop()
    assert counting.counts == {KEYS[0]: 2}


async def test_stopping_keeps_no_timer_and_no_task(counting: Counting) -> None:
    counting.write(KEYS[0])
    counting.log.error = ErrorCode.KAFKA_STORAGE_ERROR
    counting.write(KEYS[1])
    counting.runtime.close_topic()
    counting.runtime.open_topic()
    await counting.runtime.stop()
    assert counting.timers.pending == 0
    assert not counting.runtime.loads
    assert not counting.counts


class TestInACluster:
    @pytest.fixture
    async def counting(self) -> Counting:
        """A partition 0 that this broker leads in epoch 5."""
        counting = Counting(leads=False)
        await counting.runtime.ensure_topic()
        counting.leads(0, 5)
        return counting

    async def test_a_broker_coordinates_the_partitions_that_it_leads(self, counting: Counting) -> None:
        assert counting.runtime.is_active(KEYS[0])
        assert counting.error_of(KEYS[1]) is ErrorCode.NOT_COORDINATOR
        assert not counting.runtime.is_loading

    async def test_a_broker_may_lead_before_it_sees_the_topic(self) -> None:
        counting = Counting(leads=False)
        counting.leads(2, 0)
        assert counting.error_of(KEYS[2]) is ErrorCode.NOT_COORDINATOR
        await counting.runtime.ensure_topic()
        assert counting.runtime.is_active(KEYS[2])
        assert not counting.runtime.is_active(KEYS[0])

    async def test_a_new_leader_loads_what_is_in_the_log(self, counting: Counting) -> None:
        counting.write(KEYS[0])
        counting.follows(0, 6)
        counting.leads(0, 7)
        assert counting.error_of(KEYS[0]) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert not counting.counts, "what was there is dropped before anything is loaded"
        await counting.time_passes(0)
        assert counting.counts == {KEYS[0]: 1}

    async def test_the_state_of_a_lost_partition_is_dropped(self, counting: Counting) -> None:
        counting.leads(1, 3)
        counting.write(KEYS[0])
        counting.write(KEYS[1])
        counting.follows(0, 6)
        assert counting.error_of(KEYS[0]) is ErrorCode.NOT_COORDINATOR
        counting.timers.advance(0)
        assert counting.counts == {KEYS[1]: 1}
        assert counting.timers.pending == 0

    async def test_many_lost_partitions_are_dropped_one_after_another(self, counting: Counting) -> None:
        dropped: list[int] = []
        unload = counting.unload
        counting.unload = lambda partitions: (dropped.extend(partitions), unload(partitions))  # type: ignore
        for partition in range(1, 4):
            counting.leads(partition, 3)
        for partition in range(4):
            counting.write(KEYS[partition])
            counting.follows(partition, 6)
        assert not dropped
        counting.leads(2, 7)
        assert dropped == [2], "before it is loaded again"
        await counting.time_passes(0)
        assert sorted(dropped) == [0, 1, 2, 3]
        assert counting.counts == {KEYS[2]: 1}
        assert counting.timers.pending == 0

    async def test_appends_that_wait_fail_and_are_not_applied(self, counting: Counting) -> None:
        counting.log.hold = True
        answers = counting.write(KEYS[0])
        undone: list[str] = []
        counting.write_records(KEYS[0], [(b"k", b"")], answers.append, undone=lambda: undone.append("undone"))
        counting.follows(0, 6)
        counting.timers.advance(0)
        assert answers == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
        assert not undone
        assert not counting.counts
        assert counting.error_of(KEYS[0]) is ErrorCode.NOT_COORDINATOR
        assert counting.timers.pending == 0, "nothing is read again: another broker coordinates"

    async def test_what_a_load_of_an_older_epoch_found_is_dropped(self, counting: Counting) -> None:
        counting.write(KEYS[0])
        counting.follows(0, 6)
        counting.pause = asyncio.Event()
        counting.leads(0, 7)
        await asyncio.sleep(0)
        assert counting.log.reads == 1
        counting.follows(0, 8)
        counting.pause.set()
        await counting.time_passes(0)
        assert not counting.counts
        assert counting.error_of(KEYS[0]) is ErrorCode.NOT_COORDINATOR

    async def test_a_load_begins_anew_in_a_new_epoch(self, counting: Counting) -> None:
        counting.write(KEYS[0])
        counting.follows(0, 6)
        counting.pause = asyncio.Event()
        counting.leads(0, 7)
        await asyncio.sleep(0)
        counting.leads(0, 8)
        await asyncio.sleep(0)
        assert counting.log.reads == 2
        counting.pause.set()
        await counting.time_passes(0)
        assert counting.counts == {KEYS[0]: 1}, "once"

    async def test_a_new_epoch_of_the_same_leader_changes_nothing(self, counting: Counting) -> None:
        counting.log.hold = True
        answers = counting.write(KEYS[0])
        counting.leads(0, 6)
        assert counting.runtime.is_active(KEYS[0])
        counting.log.release()
        assert answers == [ErrorCode.NONE]
        assert counting.counts == {KEYS[0]: 1}

    @pytest.mark.parametrize("leads", [True, False])
    async def test_news_of_an_older_epoch_changes_nothing(self, counting: Counting, leads: bool) -> None:
        counting.write(KEYS[0])
        counting.runtime.leadership_changed(0, leads=leads, leader_epoch=4)
        assert counting.runtime.is_active(KEYS[0])
        counting.timers.advance(0)
        assert counting.counts == {KEYS[0]: 1}

    async def test_a_partition_that_was_deleted_may_begin_with_a_lower_epoch(
        self, counting: Counting
    ) -> None:
        counting.follows(0, -2)
        counting.leads(0, 0)
        assert counting.runtime.is_active(KEYS[0])

    async def test_a_partition_that_failed_is_left_to_its_new_leader(self, counting: Counting) -> None:
        counting.log.error = ErrorCode.KAFKA_STORAGE_ERROR
        counting.write(KEYS[0])
        counting.timers.advance(0)
        counting.follows(0, 6)
        await counting.time_passes(60)
        assert counting.log.reads == 0
        assert counting.error_of(KEYS[0]) is ErrorCode.NOT_COORDINATOR

    async def test_a_write_after_the_leadership_was_lost_reads_nothing_again(
        self, counting: Counting
    ) -> None:
        counting.follows(0, 6)
        counting.log.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert counting.write(KEYS[0]) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        counting.timers.advance(0)
        assert counting.timers.pending == 0

    async def test_a_topic_that_was_created_again_is_loaded(self, counting: Counting) -> None:
        counting.write(KEYS[0])
        counting.disappears()
        assert not counting.counts
        assert counting.error_of(KEYS[0]) is ErrorCode.NOT_COORDINATOR
        await counting.log.create()
        assert counting.runtime.is_active(KEYS[0]), "this broker has been told that it leads"
        assert not counting.runtime.is_active(KEYS[1])

    async def test_stopping_drops_what_was_lost_too(self, counting: Counting) -> None:
        counting.log.hold = True
        answers = counting.write(KEYS[0])
        counting.follows(0, 6)
        await counting.runtime.stop()
        assert answers == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert counting.timers.pending == 0
