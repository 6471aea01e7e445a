"""A coordinator's partitions: read, held, given up and read again; and the writes to them.

                 read to its end                   cannot be written
    LOADING ────────────────────────► ACTIVE ──────────────────────────► FAILED
       │                                ▲                                 ▲  │ by and by
       │ cannot be read                 └─────────────────────────────────┼──┘
       └──────────────────────────────────────────────────────────────────┘

This broker coordinates what lives in the partitions that it leads. A partition is first read to its end, in
the background; until then requests answer COORDINATOR_LOAD_IN_PROGRESS. If it cannot be read or written, for
whatever reason, requests answer NOT_COORDINATOR from then on. It is read again after a second, then after
two, and so on up to half a minute. (In Apache Kafka it stays FAILED until another broker leads it.) Meanwhile
it counts as failed, not as loading, so that a request about all partitions is answered with what the others
hold.

Memory follows the log. A change is made when its records are committed, in the order in which they were
written. A write that fails leaves memory as a restart would find it, even where only some of its batches are
in the log. Some things must change before their write: a group that is deleted takes no more requests. They
are put back if the write fails. A partition that was unloaded meanwhile is left alone: what is committed
comes back when it is read.

Source: Apache Kafka's CoordinatorRuntime.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from kafkapy.coordination.errors import LOST, describe
from kafkapy.coordination.partitioning import partition_of
from kafkapy.coordination.timers import Cancellable, Timers
from kafkapy.coordination.topic_log import Done, TopicLog
from kafkapy.metadata.image import MetadataImage
from kafkapy.process.clock import Clock
from kafkapy.protocol.errors import DecodeError, ErrorCode, KafkaError
from kafkapy.protocol.records import Record, build_batch
from kafkapy.storage.disk.files import is_exhausted

KeyValue = tuple[bytes, bytes | None]
"""A record; the value of a tombstone is None."""

MAX_BATCH_BYTES: Final = 512 * 1024
"""Well below the default max.message.bytes; what is longer is written in several batches."""
RECORD_OVERHEAD: Final = 32

RETRY_SECONDS: Final = 1.0
MAX_RETRY_SECONDS: Final = 30.0

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

logger = logging.getLogger(__name__)


class Replay(Protocol[T_co]):
    """Takes in a partition that is read, in a worker thread."""

    def add(self, batches: bytes) -> None:
        """Take in whole batches, in order of the log."""
        ...

    def result(self) -> T_co:
        """What all of them together say."""
        ...


class StateMachine(Protocol[T]):
    """A coordinator: what the records of its topic mean."""

    def replay(self, name: str) -> Replay[T]:
        """A partition, of this name in log lines, begins to be read."""
        ...

    def install(self, loaded: T) -> str:
        """Take over what a partition holds; what that is, in a few words for the log."""
        ...

    def unload(self, partitions: Collection[int]) -> None:
        """Forget what lives in these partitions, and send waiting requests elsewhere.

        They look for the coordinator again.
        """
        ...


class PartitionState(Enum):
    """What this broker is to a partition of the topic."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    """It could not be read or written; it is read again later."""


@dataclass(slots=True)
class _Failure:
    """Why a partition is FAILED, and when it is read again."""

    why: str
    retry_seconds: float
    timer: Cancellable


@dataclass(slots=True, eq=False)
class _Partition:
    """A partition from when it is read until it is unloaded."""

    index: int
    state: PartitionState = PartitionState.LOADING
    failure: _Failure | None = None
    """The last one; None once it is ACTIVE."""
    is_unloaded: bool = False


class CoordinatorRuntime(Generic[T]):
    """Keeps a state machine and its topic together."""

    def __init__(
        self,
        machine: StateMachine[T],
        log: TopicLog,
        clock: Clock,
        timers: Timers,
        *,
        blocking: Callable[..., Awaitable[Any]],
    ) -> None:
        """`blocking(call, *args)` runs what takes long in a worker thread."""
        self._machine = machine
        self._log = log
        self._clock = clock
        self._timers = timers
        self._blocking = blocking
        self._partitions: list[_Partition] = []
        """The partitions of the topic; none while it does not exist."""
        self._loading: set[asyncio.Task[None]] = set()

    # --- the topic ------------------------------------------------------------------------------------

    @property
    def has_topic(self) -> bool:
        """Whether the topic exists."""
        return bool(self._partitions)

    async def ensure_topic(self) -> None:
        """Have the topic, created on first use.

        Raises:
            KafkaError: it cannot be created.
        """
        if not self._partitions:
            await self._log.create()  # which publishes the metadata with it

    def open_topic(self) -> None:
        """Take over the topic as it exists now, and read it in the background."""
        self._partitions = [_Partition(index) for index in range(self._log.partition_count())]
        for partition in tuple(self._partitions):
            self._open(partition)

    def close_topic(self) -> None:
        """Give everything up: the broker stops, or the topic was deleted.

        Writes that were begun end as they end.
        """
        for task in self._loading:
            task.cancel()
        for partition in self._partitions:
            if partition.failure is not None:
                partition.failure.timer.cancel()
            partition.is_unloaded = True
        if self._partitions:
            self._machine.unload(range(len(self._partitions)))
        self._partitions = []

    async def stop(self) -> None:
        """Keep no timer and no task."""
        self.close_topic()
        if self._loading:
            await asyncio.wait(self._loading)

    def metadata_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Act on a topic that came or went; the logs of one that came exist already."""
        before = old.topics.get(self._log.topic)
        if before is not None and before.id not in new.topics_by_id:
            self.close_topic()
        if self._log.topic in new.topics and not self._partitions:
            self.open_topic()

    # --- its partitions -------------------------------------------------------------------------------

    def partition_of(self, key: str) -> int:
        """The partition that a key lives in, while there is a topic."""
        return partition_of(key, len(self._partitions))

    def is_active(self, key: str) -> bool:
        """Whether everything about a key is known."""
        return self._state_of(key) is PartitionState.ACTIVE

    def require_active(self, key: str) -> None:
        """Raises KafkaError COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR where it is not so."""
        state = self._state_of(key)
        if state is PartitionState.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if state is PartitionState.FAILED:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

    @property
    def is_loading(self) -> bool:
        """Whether some partition has not been read yet."""
        return any(partition.state is PartitionState.LOADING for partition in self._partitions)

    def _state_of(self, key: str) -> PartitionState:
        if not self._partitions:
            return PartitionState.FAILED
        return self._partitions[self.partition_of(key)].state

    def _name(self, partition: _Partition) -> str:
        return f"{self._log.topic}-{partition.index}"

    def _open(self, partition: _Partition) -> None:
        """Read a partition, in the background if there is anything in it."""
        try:
            if self._log.is_empty(partition.index):
                self._opened(partition)
                return
        except Exception as error:
            self._fail(partition, error)
            return
        task = asyncio.get_running_loop().create_task(self._load(partition))
        self._loading.add(task)
        task.add_done_callback(self._loading.discard)

    async def _load(self, partition: _Partition) -> None:
        replay = self._machine.replay(self._name(partition))
        try:
            async for batches in self._log.read(partition.index):
                await self._blocking(replay.add, batches)
            what = self._machine.install(await self._blocking(replay.result))
        except Exception as error:
            self._fail(partition, error)
        else:
            self._opened(partition)
            logger.info("%s: %s", self._name(partition), what)

    def _opened(self, partition: _Partition) -> None:
        partition.state = PartitionState.ACTIVE
        if partition.failure is not None:
            partition.failure = None
            logger.info("%s is there again, and what lives in it", self._name(partition))

    def _fail(self, partition: _Partition, error: Exception) -> None:
        """Give up what lives in the partition once this event is over, and read it again later."""
        partition.state = PartitionState.FAILED
        why, before = describe(error), partition.failure
        if before is None or before.why != why:
            is_known = isinstance(error, (KafkaError, DecodeError, OSError)) or is_exhausted(error)
            logger.error(
                "%s cannot be used, nor what lives in it, until it can be read again: %s",
                *(self._name(partition), why),
                exc_info=None if is_known else error,
            )
        seconds = RETRY_SECONDS if before is None else min(before.retry_seconds * 2, MAX_RETRY_SECONDS)
        timer = self._timers.call_later(0, lambda: self._give_up(partition))
        partition.failure = _Failure(why, seconds, timer)

    def _give_up(self, partition: _Partition) -> None:
        failure = partition.failure
        assert failure is not None
        partition.is_unloaded = True
        self._machine.unload((partition.index,))
        again = _Partition(partition.index, PartitionState.FAILED, failure)
        self._partitions[partition.index] = again
        failure.timer = self._timers.call_later(failure.retry_seconds, lambda: self._open(again))

    # --- writes ---------------------------------------------------------------------------------------

    def write(
        self,
        key: str,
        records: Sequence[KeyValue],
        done: Done,
        *,
        committed: Callable[[int, int], None] | None = None,
        undone: Callable[[], object] | None = None,
    ) -> None:
        """Write records, at least one, to the partition that `key` lives in.

        `done` is called once, for all of them: with NONE when they are committed, else with why not all are.
        Before that, unless the partition was unloaded meanwhile, `committed(start, stop)` is called for each
        part of the records that is committed, and `undone` if that is not all of them.
        """
        partition = self._partitions[self.partition_of(key)]
        now = self._clock.now_ms()
        batches = [
            (start, stop, build_batch(Record(-1, now, key, value, []) for key, value in records[start:stop]))
            for start, stop in _parts(records)
        ]
        waiting = len(batches)
        failed = ErrorCode.NONE

        def finished(start: int, stop: int, error: ErrorCode) -> None:
            nonlocal waiting, failed
            waiting -= 1
            if error is not ErrorCode.NONE:
                failed = error
                if error in LOST:
                    self._lose(partition)
            elif committed is not None and not partition.is_unloaded:
                committed(start, stop)
            if waiting:
                return
            if failed is not ErrorCode.NONE and undone is not None and not partition.is_unloaded:
                undone()
            done(failed)

        for start, stop, batch in batches:
            self._log.append(partition.index, batch, partial(finished, start, stop))

    def _lose(self, partition: _Partition) -> None:
        """The partition cannot be written any more."""
        if partition.state is not PartitionState.FAILED and not partition.is_unloaded:
            self._fail(partition, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "it could not be written"))


def _parts(records: Sequence[KeyValue]) -> Iterator[tuple[int, int]]:
    """Where each part that fits into a batch starts and stops.

    A part of one record may still be too large.
    """
    start = size = 0
    for index, (key, value) in enumerate(records):
        nbytes = len(key) + len(value or b"") + RECORD_OVERHEAD
        if size and size + nbytes > MAX_BATCH_BYTES:
            yield start, index
            start, size = index, 0
        size += nbytes
    yield start, len(records)
