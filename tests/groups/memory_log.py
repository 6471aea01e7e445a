"""`__consumer_offsets` in memory, with appends that wait or fail on demand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from kafkapy.coordination.runtime import CoordinatorRuntime
from kafkapy.coordination.topic_log import Done
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.coordinator import GroupCoordinator
from kafkapy.groups.loading import GroupReplay, LoadedPartition
from kafkapy.groups.share.persister import StateKeeper
from kafkapy.metadata.image import MetadataImage, Topic
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.records import BatchHeader, read_header, stamp_batch
from kafkapy.protocol.topic_names import GROUP_METADATA_TOPIC
from kafkapy.protocol.types import random_uuid
from kafkapy.storage.log.marker_batch import prepare_marker
from kafkapy.storage.log.markers import TransactionMarker
from kafkapy.storage.log.verification import Verification
from tests.loop.turned_clock import TurnedClock, TurnedTimers


class MemoryLog:
    """A TopicLog whose batches outlive the coordinator that wrote them."""

    topic = GROUP_METADATA_TOPIC

    def __init__(self, partitions: int = 4) -> None:
        self.new_partitions = partitions
        self.batches: list[list[bytes]] = []
        self.ends: list[int] = []
        self.hold = False
        self.error = ErrorCode.NONE
        self.largest = 1_048_588
        self.unreadable: Exception | None = None
        """The error that a reader of the log meets."""
        self.created: Callable[[], None] = lambda: None
        self.reads = 0
        """How often a partition was read."""
        self.reaches_next_leader = False
        """Whether the next leader commits the appends that wait when the leadership is lost."""
        self._appended = b""
        """The batch that was appended last, and is held."""
        self._held: list[tuple[int, bytes, Done]] = []

    def partition_count(self) -> int:
        return len(self.batches)

    async def create(self) -> None:
        if not self.batches:
            self.batches = [[] for _ in range(self.new_partitions)]
            self.ends = [0] * self.new_partitions
            self.created()

    def is_empty(self, partition: int) -> bool:
        if isinstance(self.unreadable, KafkaError):
            raise self.unreadable
        return not self.batches[partition]

    def end_offset(self, partition: int) -> int:
        return self.ends[partition]

    def is_committed(self, partition: int, offset: int) -> bool:
        return all(
            read_header(batch).base_offset >= offset for held, batch, _ in self._held if held == partition
        )

    def delete_before(self, partition: int, offset: int) -> None:
        kept = [batch for batch in self.batches[partition] if read_header(batch).next_offset > offset]
        self.batches[partition] = kept

    def leader_epoch(self, partition: int) -> int:
        return 0

    def max_batch_bytes(self, partition: int) -> int:
        return self.largest

    def append(
        self,
        partition: int,
        header: BatchHeader,
        batch: memoryview,
        *,
        verification: Verification | None = None,
    ) -> ErrorCode | None:
        if self.error is not ErrorCode.NONE:
            return self.error
        if len(batch) > self.largest:
            return ErrorCode.MESSAGE_TOO_LARGE
        header = stamp_batch(batch, self.ends[partition], leader_epoch=0)
        self.ends[partition] = header.next_offset
        if self.hold:
            self._appended = bytes(batch)
            return None
        self.batches[partition].append(bytes(batch))
        return ErrorCode.NONE

    def append_marker(
        self, partition: int, producer_id: int, producer_epoch: int, marker: TransactionMarker
    ) -> ErrorCode | None:
        (prepared,) = prepare_marker(producer_id, producer_epoch, marker).batches
        return self.append(partition, prepared.header, prepared.buffer)

    def when_committed(self, partition: int, done: Done) -> None:
        self._held.append((partition, self._appended, done))

    @property
    def has_uncommitted(self) -> bool:
        return bool(self._held)

    @property
    def holds(self) -> int:
        """How many appends are held."""
        return len(self._held)

    def release(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Commit the oldest append that is held, or let it fail."""
        partition, batch, done = self._held.pop(0)
        if error is ErrorCode.NONE:
            self.batches[partition].append(batch)
        done(error)

    def leadership_lost_everywhere(self) -> None:
        """Report all appends that wait as failed."""
        for partition in range(len(self.batches)):
            self.leadership_lost(partition)

    def leadership_lost(self, partition: int) -> None:
        lost = [held for held in self._held if held[0] == partition]
        self._held = [held for held in self._held if held[0] != partition]
        for _, batch, done in lost:
            if self.reaches_next_leader:
                self.batches[partition].append(batch)
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    async def wait_for_commits(self, partition: int) -> int:
        return self.ends[partition]

    async def read(self, partition: int, end_offset: int) -> AsyncIterator[bytes]:
        """The batches that are committed."""
        self.reads += 1
        for batch in tuple(self.batches[partition]):
            if self.unreadable is not None:
                raise self.unreadable
            yield batch

    def replay(self, partition: int) -> LoadedPartition:
        """What a coordinator that starts now would load."""
        replay = GroupReplay("test")
        for batch in self.batches[partition]:
            replay.add(batch)
        return replay.result()

    def entry(self) -> Topic:
        """The topic in the metadata, as a new one."""
        return Topic(GROUP_METADATA_TOPIC, random_uuid(), ())


def lead_all(runtime: CoordinatorRuntime[Any], log: MemoryLog) -> None:
    """Let a broker lead all partitions of a log, also of one that is not created yet."""
    for partition in range(log.new_partitions):
        runtime.leadership_changed(partition, leads=True, leader_epoch=0)


Blocking = Callable[..., Awaitable[Any]]


async def run_here(call: Callable[..., Any], *args: Any) -> Any:
    """Blocking work, in the test's own thread."""
    return call(*args)


def coordinator(
    log: MemoryLog,
    clock: TurnedClock,
    timers: TurnedTimers,
    config: GroupConfig | None = None,
    *,
    leads: bool = True,
    share_state: StateKeeper | None = None,
    blocking: Blocking = run_here,
) -> GroupCoordinator:
    """A coordinator on `log`, not started.

    Its broker leads all partitions, or at first none.
    """
    groups = GroupCoordinator(
        config or GroupConfig(),
        clock,
        timers,
        log,
        blocking=blocking,
        costly=blocking,
        share_state=share_state,
    )
    if leads:
        lead_all(groups.runtime, log)
    image = MetadataImage()
    log.created = lambda: groups.metadata_changed(image, image.with_topics([log.entry()]))
    return groups
