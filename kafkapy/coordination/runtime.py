"""Loads, unloads and reloads the partitions of a coordinator, and writes to them.

                 read to its end                   cannot be written
    LOADING ────────────────────────► ACTIVE ──────────────────────────► FAILED
     ▲ │                                ▲                                 ▲  │ later
     │ │ cannot be read                 └─────────────────────────────────┼──┘
     │ └──────────────────────────────────────────────────────────────────┘
     │ this broker leads it                                   any state ──► NOT_LED
    NOT_LED                                              another broker leads it

This broker is the coordinator for the partitions that it leads, and hears of each change of that
(`leadership_changed`). A partition is first read to its end, in the background; until then requests get
COORDINATOR_LOAD_IN_PROGRESS. If it cannot be read or written, for any reason, requests get NOT_COORDINATOR.
It is read again after one second, then after two, and so on up to half a minute. (In Apache Kafka it remains
FAILED until another broker leads it.) Meanwhile it counts as failed, not as loading, so that a request about
all partitions is answered from the others.

When another broker takes over a partition, requests get NOT_COORDINATOR at once. The state is dropped after
the present event, one partition after another, with other events in between: there may be thousands of keys
in each. What waits is answered then: waiting requests by the state machine, and after them the appends that
are not committed. The new leader decides which of these are. A load that has not ended is cancelled.

The state in memory follows the log. A change is applied when its records are committed, in the order of the
writes. A failed write leaves the state that a restart would load, even if some of its batches are in the log.
Some changes must be made before their write: a group that is being deleted takes no more requests. They are
undone if the write fails. If the partition was unloaded meanwhile, nothing is undone: the committed records
are loaded again later.

Source: Apache Kafka's CoordinatorRuntime.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from kafkapy.coordination.errors import LOST, describe
from kafkapy.coordination.partitioning import partition_of
from kafkapy.coordination.pending_write import PendingWrite
from kafkapy.coordination.timers import Cancellable, Timers
from kafkapy.coordination.topic_log import Done, TopicLog
from kafkapy.loop.clock import Clock
from kafkapy.loop.latency_sample import LatencySample
from kafkapy.metadata.image import MetadataImage
from kafkapy.protocol.errors import NONE, DecodeError, ErrorCode, KafkaError
from kafkapy.protocol.plain_batch import KeyValue, build_plain_batch
from kafkapy.protocol.records import HEADER_SIZE, BatchHeader
from kafkapy.storage.disk.errors import is_exhausted
from kafkapy.storage.log.markers import TransactionMarker
from kafkapy.storage.log.verification import Verification

MAX_BATCH_BYTES: Final = 512 * 1024
"""The most bytes of a batch, well below the default max.message.bytes. Longer writes have several batches."""
RECORD_OVERHEAD: Final = 32
"""More than a record takes beside its key and value."""

RETRY_SECONDS: Final = 1.0
MAX_RETRY_SECONDS: Final = 30.0


class TransactionalProducer(NamedTuple):
    """The producer in whose transaction records are written."""

    producer_id: int
    producer_epoch: int
    verification: Verification | None
    """None if it has an open transaction in the partition already."""


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

logger = logging.getLogger(__name__)


class Replay(Protocol[T_co]):
    """Collects the batches of a partition that is being read, in a worker thread."""

    def add(self, batches: bytes) -> None:
        """Add complete batches, in log order."""
        ...

    def result(self) -> T_co:
        """The state that results from all batches."""
        ...


class StateMachine(Protocol[T]):
    """A coordinator, which interprets the records of its topic."""

    def replay(self, name: str) -> Replay[T]:
        """Begin to read a partition, which log lines call `name`."""
        ...

    def install(self, loaded: T) -> str:
        """Add the state of a partition.

        Return a short description of it for the log.
        """
        ...

    def unload(self, partitions: Collection[int]) -> None:
        """Drop the state of these partitions, and answer waiting requests with an error.

        Their clients then look for the coordinator again.
        """
        ...


class PartitionState(Enum):
    """The state of a partition of the topic."""

    NOT_LED = "not led"
    """Another broker leads the partition, and is its coordinator."""
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    """The partition could not be read or written. It is read again later."""


_ACTIVE: Final = PartitionState.ACTIVE
"""For every request (see `kafkapy.protocol.errors.NONE`)."""


@dataclass(slots=True)
class _Failure:
    """Why a partition is FAILED, and when it is read again."""

    why: str
    retry_seconds: float
    timer: Cancellable


@dataclass(slots=True, eq=False)
class _Partition:
    """A partition, from the beginning of its reading until it is unloaded."""

    index: int
    state: PartitionState = PartitionState.LOADING
    failure: _Failure | None = None
    """The last failure; None when the partition is ACTIVE."""
    load: asyncio.Task[None] | None = None
    """The task that reads the partition, once it has begun."""
    is_unloaded: bool = False

    def close(self) -> None:
        """Stop reading the partition, now and later, because its state is dropped."""
        self.is_unloaded = True
        if self.load is not None:
            self.load.cancel()
        if self.failure is not None:
            self.failure.timer.cancel()


class CoordinatorRuntime(Generic[T]):
    """Keeps a state machine in step with its topic."""

    def __init__(
        self,
        machine: StateMachine[T],
        log: TopicLog,
        clock: Clock,
        timers: Timers,
        *,
        blocking: Callable[..., Awaitable[Any]],
    ) -> None:
        """`blocking(call, *args)` runs a long call in a worker thread."""
        self._machine = machine
        self._log = log
        self._clock = clock
        self._timers = timers
        self._blocking = blocking
        self.load_times: LatencySample[float] = LatencySample(clock.monotonic())
        """A sample of the seconds that loads of partitions took."""
        self._partitions: list[_Partition] = []
        """The partitions of the topic; empty while it does not exist."""
        self._led: dict[int, int] = {}
        """The partitions that this broker leads, also before the topic is in the image.

        Each has its leader epoch.
        """
        self._lost: set[int] = set()
        """The partitions that another broker leads now, and whose state is still to be dropped."""
        self._unloading: Cancellable | None = None
        """The timer of the next one's unloading, if there are any."""
        self.loads: set[asyncio.Task[None]] = set()
        """Those of partitions that are under way."""
        self._reading = asyncio.Lock()
        """Held by the partition that is being read.

        One after the other, they take the memory that the one before has freed. At once, they would take
        more than twice as much, for as long as the broker runs: between its freed keys are values that stay.
        """

    # --- the topic ------------------------------------------------------------------------------------

    @property
    def has_topic(self) -> bool:
        """Whether the topic exists."""
        return bool(self._partitions)

    async def ensure_topic(self) -> None:
        """Create the topic on first use.

        Raises:
            KafkaError: it cannot be created.
        """
        if not self._partitions:
            await self._log.create()  # which publishes the metadata with it

    def open_topic(self) -> None:
        """Read the partitions of the existing topic that this broker leads, in the background."""
        self._partitions = [
            _Partition(index, PartitionState.LOADING if index in self._led else PartitionState.NOT_LED)
            for index in range(self._log.partition_count())
        ]
        for partition in tuple(self._partitions):
            if partition.state is PartitionState.LOADING:
                self._open(partition)

    def close_topic(self) -> None:
        """Unload all partitions, because the broker stops or the topic was deleted.

        Writes that were begun are still reported.
        """
        for index in tuple(self._lost):
            self._unload_lost(index)
        if self._unloading is not None:
            self._unloading.cancel()
            self._unloading = None
        for partition in self._partitions:
            partition.close()
        if self._partitions:
            self._machine.unload(range(len(self._partitions)))
        self._partitions = []

    async def stop(self) -> None:
        """Cancel all timers and tasks."""
        self.close_topic()
        if self.loads:
            await asyncio.wait(self.loads)

    def metadata_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Open or close the topic after it was created or deleted.

        The logs of a new topic exist already.
        """
        before = old.topics.get(self._log.topic)
        if before is not None and before.id not in new.topics_by_id:
            self.close_topic()
        if self._log.topic in new.topics and not self._partitions:
            self.open_topic()

    def leadership_changed(self, index: int, *, leads: bool, leader_epoch: int) -> None:
        """Load a partition that this broker now leads, or unload one that it no longer leads.

        It is called for each change, in their order. An older leader epoch changes nothing, unless it is
        negative: the partition was deleted.
        """
        before = self._led.get(index)
        if before is not None and 0 <= leader_epoch < before:
            return
        if leads:
            self._led[index] = leader_epoch
        else:
            self._led.pop(index, None)
        if index >= len(self._partitions):
            return  # the image does not show the topic yet
        partition = self._partitions[index]
        if leads and (partition.state is PartitionState.ACTIVE or leader_epoch == before):
            return  # the state in memory is still that of the log
        if partition.state is not PartitionState.NOT_LED:
            self._resign(partition)
        if leads:
            partition = self._partitions[index] = _Partition(index)
            self._open(partition)

    @property
    def is_writing(self) -> bool:
        """Whether a write has not been committed yet."""
        return self._log.has_uncommitted

    # --- its partitions -------------------------------------------------------------------------------

    def partition_of(self, key: str) -> int:
        """The partition of a key.

        The topic must exist.
        """
        return partition_of(key, len(self._partitions))

    def leader_epoch(self, key: str) -> int:
        """The leader epoch of a key's partition, which this broker leads."""
        return self._log.leader_epoch(self.partition_of(key))

    @property
    def active_partitions(self) -> list[int]:
        """The partitions that are loaded."""
        return [each.index for each in self._partitions if each.state is PartitionState.ACTIVE]

    def partition_states(self) -> Counter[PartitionState]:
        """How many partitions of the topic have each state."""
        return Counter(each.state for each in self._partitions)

    def is_active(self, key: str) -> bool:
        """Whether the partition of a key is loaded."""
        return self._state_of(key) is PartitionState.ACTIVE

    def require_active(self, key: str) -> None:
        """Raise KafkaError COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR unless it is active."""
        state = self._state_of(key)
        if state is not _ACTIVE:
            loading = state is PartitionState.LOADING
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NOT_COORDINATOR)

    @property
    def is_loading(self) -> bool:
        """Whether a partition has not been read yet."""
        return any(partition.state is PartitionState.LOADING for partition in self._partitions)

    def _state_of(self, key: str) -> PartitionState:
        if not self._partitions:
            return PartitionState.FAILED
        return self._partitions[partition_of(key, len(self._partitions))].state

    def _name(self, partition: _Partition) -> str:
        return f"{self._log.topic}-{partition.index}"

    def _open(self, partition: _Partition) -> None:
        """Read a partition, in the background if there is anything in it."""
        if partition.index in self._lost:
            self._unload_lost(partition.index)
        try:
            if self._log.is_empty(partition.index):
                self._opened(partition)
                return
        except Exception as error:
            self._fail(partition, error)
            return
        task = partition.load = asyncio.get_running_loop().create_task(self._load(partition))
        self.loads.add(task)
        task.add_done_callback(self.loads.discard)

    async def _load(self, partition: _Partition) -> None:
        replay, began = self._machine.replay(self._name(partition)), self._clock.monotonic()
        try:
            end_offset = await self._log.wait_for_commits(partition.index)
            async with self._reading:
                async for batches in self._log.read(partition.index, end_offset):
                    await self._blocking(replay.add, batches)
                what = self._machine.install(await self._blocking(replay.result))
        except Exception as error:
            self._fail(partition, error)
        else:
            now = self._clock.monotonic()
            self.load_times.count(now - began, now)
            self._opened(partition)
            logger.info("%s: %s", self._name(partition), what)

    def _opened(self, partition: _Partition) -> None:
        partition.state = PartitionState.ACTIVE
        if partition.failure is not None:
            partition.failure = None
            logger.info("%s is available again", self._name(partition))

    def _resign(self, partition: _Partition) -> None:
        """Leave a partition to its new leader, and drop its state after the present event."""
        partition.close()
        self._partitions[partition.index] = _Partition(partition.index, PartitionState.NOT_LED)
        self._lost.add(partition.index)
        if self._unloading is None:
            self._unloading = self._timers.call_later(0, self._unload_next)

    def _unload_next(self) -> None:
        """Drop the state of a lost partition, and that of the next one later."""
        self._unloading = None
        if self._lost:
            self._unload_lost(next(iter(self._lost)))
        if self._lost:
            self._unloading = self._timers.call_later(0, self._unload_next)

    def _unload_lost(self, index: int) -> None:
        """Drop the state of a lost partition, and answer what waits for it."""
        self._lost.discard(index)
        self._machine.unload((index,))
        self._log.leadership_lost(index)

    def _fail(self, partition: _Partition, error: Exception) -> None:
        """Unload the partition after the present event, and read it again later."""
        partition.state = PartitionState.FAILED
        why, before = describe(error), partition.failure
        if before is None or before.why != why:
            is_known = isinstance(error, (KafkaError, DecodeError, OSError)) or is_exhausted(error)
            logger.error(
                "%s is unavailable until it can be read again: %s",
                self._name(partition),
                why,
                exc_info=None if is_known else error,
            )
        seconds = RETRY_SECONDS if before is None else min(before.retry_seconds * 2, MAX_RETRY_SECONDS)
        timer = self._timers.call_later(0, lambda: self._give_up(partition))
        partition.failure = _Failure(why, seconds, timer)

    def _give_up(self, partition: _Partition) -> None:
        failure = partition.failure
        assert failure is not None
        partition.close()
        self._machine.unload((partition.index,))
        again = _Partition(partition.index, PartitionState.FAILED, failure)
        self._partitions[partition.index] = again
        failure.timer = self._timers.call_later(failure.retry_seconds, lambda: self._open(again))

    # --- writes ---------------------------------------------------------------------------------------

    def write(
        self,
        key: str,
        records: list[KeyValue],
        *,
        committed: Callable[[int, int], None] | None = None,
        undone: Callable[[], object] | None = None,
        producer: TransactionalProducer | None = None,
    ) -> ErrorCode | PendingWrite[_Partition]:
        """Write records, at least one, to the partition of `key`.

        They are in the transaction of `producer`, if one is given.
        Returns NONE if all records are committed at once, the error if they are refused at once, and
        otherwise what tells the outcome later. Before that, unless the partition was unloaded meanwhile,
        `committed(start, stop)` is called for each range of records that is committed, and `undone` if not
        all of them are.

        If one of the records is too large for the log, none is written: clients decide how large records are,
        and half a write would have to be read back, with all else in the partition.
        """
        partition = self._partitions[partition_of(key, len(self._partitions))]
        now = self._clock.now_ms()
        if producer is None:
            (header, batch), verification = build_plain_batch(records, now), None
        else:
            (header, batch), verification = _build(records, now, producer), producer.verification
        if len(batch) > MAX_BATCH_BYTES:
            outcome: ErrorCode | None = ErrorCode.MESSAGE_TOO_LARGE
        else:
            outcome = self._log.append(partition.index, header, batch, verification=verification)
        if outcome is NONE:
            if committed is not None and not partition.is_unloaded:
                committed(0, len(records))
            return outcome
        write = PendingWrite(partition, 1, committed, undone)
        if outcome is ErrorCode.MESSAGE_TOO_LARGE:
            self._write_in_parts(write, records, now, producer)
        elif outcome is None:
            self._batch_waits(write, 0, len(records))
        else:
            self._batch_ended(write, 0, 0, outcome)
        return write if write.batches else write.failed

    def _write_in_parts(
        self,
        write: PendingWrite[_Partition],
        records: list[KeyValue],
        now: int,
        producer: TransactionalProducer | None,
    ) -> None:
        """Write records in batches of as many bytes as the log takes.

        None is written if a record is too large.
        """
        index = write.partition.index
        try:
            largest = self._log.max_batch_bytes(index)
        except KafkaError as error:
            self._batch_ended(write, 0, 0, error.code)
            return
        verification = None if producer is None else producer.verification
        batches = [
            (start, stop, *_build(records[start:stop], now, producer))
            for start, stop in _parts(records, min(MAX_BATCH_BYTES, largest) - HEADER_SIZE)
        ]
        if any(len(batch) > largest for *_, batch in batches):
            self._batch_ended(write, 0, 0, ErrorCode.MESSAGE_TOO_LARGE)
            return
        write.batches = len(batches)
        for start, stop, header, batch in batches:
            outcome = self._log.append(index, header, batch, verification=verification)
            if outcome is None:
                self._batch_waits(write, start, stop)
            else:
                self._batch_ended(write, start, stop, outcome)

    def _batch_waits(self, write: PendingWrite[_Partition], start: int, stop: int) -> None:
        """Act later on a batch with the records from `start` to `stop`."""

        def ended(error: ErrorCode) -> None:
            self._batch_ended(write, start, stop, error)
            if not write.batches:
                write.end()

        self._log.when_committed(write.partition.index, ended)

    def _batch_ended(self, write: PendingWrite[_Partition], start: int, stop: int, error: ErrorCode) -> None:
        """Act on a batch with the records from `start` to `stop` that is committed or has failed."""
        partition = write.partition
        write.batches -= 1
        if error:
            write.failed = error
            if error in LOST:
                self._lose(partition)
        elif write.committed is not None and not partition.is_unloaded:
            write.committed(start, stop)
        if write.failed and not write.batches and write.undone is not None and not partition.is_unloaded:
            write.undone()

    def write_marker(
        self,
        index: int,
        producer_id: int,
        producer_epoch: int,
        marker: TransactionMarker,
        done: Done,
        *,
        committed: Callable[[], None],
    ) -> None:
        """Write the marker of a transaction to a partition.

        `committed` is called when it is committed, unless the partition was unloaded meanwhile. Then `done`
        is called with NONE, or with the error. A partition that is not loaded takes no marker: loading might
        miss it.
        """
        state = self._partitions[index].state if index < len(self._partitions) else PartitionState.NOT_LED
        if state is not PartitionState.ACTIVE:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        partition = self._partitions[index]

        def finished(error: ErrorCode) -> None:
            if error in LOST:
                self._lose(partition)
            elif error is ErrorCode.NONE and not partition.is_unloaded:
                committed()
            done(error)

        outcome = self._log.append_marker(index, producer_id, producer_epoch, marker)
        if outcome is None:
            self._log.when_committed(index, finished)
        else:
            finished(outcome)

    def reload(self, key: str) -> None:
        """Read the partition of a key again, because the state in memory may differ from the log."""
        self._lose(self._partitions[self.partition_of(key)])

    def _lose(self, partition: _Partition) -> None:
        """The partition cannot be written any more."""
        if partition.state in (PartitionState.LOADING, PartitionState.ACTIVE) and not partition.is_unloaded:
            self._fail(partition, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "it could not be written"))


def _build(
    records: list[KeyValue], now: int, producer: TransactionalProducer | None
) -> tuple[BatchHeader, memoryview]:
    """Build a batch, which is in the transaction of `producer` if one is given."""
    if producer is None:
        return build_plain_batch(records, now)
    return build_plain_batch(
        records,
        now,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transactional=True,
    )


def _parts(records: Sequence[KeyValue], limit: int) -> Iterator[tuple[int, int]]:
    """The (start, stop) ranges of records that fit into a batch of `limit` bytes.

    A single record may still be too large.
    """
    start = size = 0
    for index, (key, value) in enumerate(records):
        nbytes = len(key) + len(value or b"") + RECORD_OVERHEAD
        if size and size + nbytes > limit:
            yield start, index
            start, size = index, 0
        size += nbytes
    yield start, len(records)
