"""The share partitions that this broker has, because it leads their partitions.

One is loaded from its share coordinator when a member first asks for it. It is given up (fenced) when the
broker leads the partition no more, when the topic is deleted, when the coordinator refuses it because of a
newer epoch, and when no member of the group has a session here: then an operator may alter its offset.

What was decided is stored by one write at a time for each share partition. Decisions that come meanwhile
share the next write. A change of records that cannot be stored is undone, except for ends of locks.

A request that waits for records watches the share partition in the broker's `Waiters`. Source: Apache Kafka's
SharePartitionManager, SharePartitionCache.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias

from kafkapy.coordination.timers import CLOSE_ENOUGH, Cancellable, Timers
from kafkapy.logs.text import shortened
from kafkapy.loop.clock import Clock
from kafkapy.loop.turns import Turn
from kafkapy.loop.waiters import Waiters
from kafkapy.metadata.image import MetadataImage
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import TopicPartition
from kafkapy.replicas.partition import Partition
from kafkapy.replicas.topic_traffic import TopicTraffic
from kafkapy.share.counts import ShareCounts
from kafkapy.share.persister import StoredState
from kafkapy.share.settings import ShareSettings
from kafkapy.share.share_partition import Acknowledgement, SharePartition, StateChange, StoredBatch
from kafkapy.share.state import UNKNOWN
from kafkapy.share.state_records import ShareKey

_SHOWN: Final = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""The errors of a share coordinator as members see them; all others are UNKNOWN_SERVER_ERROR."""
_FENCED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""The errors after which the share partition must be loaded anew."""

logger = logging.getLogger(__name__)

_Done: TypeAlias = "asyncio.Future[KafkaError | None]"
"""The outcome of a decision: None, or the error for the member."""


class StateStore(Protocol):
    """Reads and writes the states of share partitions (`kafkapy.share.persister.Persister`)."""

    async def read(self, key: ShareKey, leader_epoch: int) -> StoredState:
        """The state; raises KafkaError."""

    async def write(
        self,
        key: ShareKey,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Iterable[StoredBatch],
    ) -> None:
        """Store what was decided; raises KafkaError."""


class FindOffset(Protocol):
    """Finds where a share group begins in a partition."""

    async def __call__(self, partition: Partition, begins_at: str | int) -> int:
        """The offset of `ShareSettings.begins_at`; raises KafkaError."""


class LedState(Enum):
    """The state of a share partition on this broker."""

    LOADING = "loading"
    ACTIVE = "active"
    FENCED = "fenced"
    """It is given up. A request that still has it must look it up again."""


class LedPartition:
    """A share partition of this broker."""

    def __init__(self, key: ShareKey, partition: Partition, machine: SharePartition) -> None:
        self.key = key
        self.partition = partition
        self.machine = machine
        self.state = LedState.LOADING
        self.error: KafkaError | None = None
        """Why it could not be loaded."""
        self.leader_epoch = partition.leader_epoch
        self.state_epoch = 0
        self.timer: Cancellable | None = None
        """The timer of the next end of a lock."""
        self.timer_at = 0.0
        self.lock_timeouts = 0
        """The records whose locks have ended by themselves."""
        self._term = partition.term

    @property
    def is_led(self) -> bool:
        """Whether this broker has led the partition all the time."""
        partition = self.partition
        return not partition.offline and partition.replication.leads and partition.term == self._term


class LedPartitions:
    """All share partitions of this broker."""

    def __init__(
        self,
        store: StateStore,
        settings: ShareSettings,
        clock: Clock,
        timers: Timers,
        waiters: Waiters,
        *,
        find_partition: Callable[[str, int], Partition],
        find_offset: FindOffset,
    ) -> None:
        """`find_partition` returns a partition of this broker, or raises KafkaError."""
        self.settings = settings
        self.counts = ShareCounts(clock.monotonic())
        self._store = store
        self._clock = clock
        self._timers = timers
        self._waiters = waiters
        self._find_partition = find_partition
        self._find_offset = find_offset
        self._led: dict[ShareKey, LedPartition] = {}
        self._led_at: dict[TopicPartition, dict[ShareKey, LedPartition]] = {}
        """The same by partition: a topic of thousands may be deleted in one turn of the event loop."""
        self._decided: dict[LedPartition, list[tuple[StateChange | None, Sequence[StoredBatch], _Done]]] = {}
        """The changes to store with the next write."""
        self._writers: dict[ShareKey, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def stop(self) -> None:
        """Give up all share partitions."""
        for led in tuple(self._led.values()):
            self._fence(led)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def is_at_rest(self) -> bool:
        """Whether no state is being read or written."""
        return not self._tasks

    # --- which there are ------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._led)

    def partitions(self) -> tuple[LedPartition, ...]:
        """All share partitions."""
        return tuple(self._led.values())

    def find(self, key: ShareKey) -> LedPartition | None:
        """The share partition, if it is here."""
        led = self._led.get(key)
        if led is not None and not led.is_led:
            self._fence(led)
            return None
        return led

    def get(self, key: ShareKey, topic: str) -> LedPartition:
        """The share partition; it is loaded if it is not here.

        Raises:
            KafkaError: this broker does not lead the partition.
        """
        led = self.find(key)
        if led is not None:
            return led
        partition = self._find_partition(topic, key.partition)
        partition.require_online()
        partition.replication.require_leader()
        if partition.topic_id not in (None, key.topic_id):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        machine = SharePartition(lambda: self.settings.limits(key.group_id))
        led = self._led[key] = LedPartition(key, partition, machine)
        self._led_at.setdefault(partition.topic_partition, {})[key] = led
        self._start(self._load(led))
        return led

    def metadata_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Give up the share partitions of deleted topics."""
        if not new.changed_topics(old):
            return
        for led in tuple(self._led.values()):
            if led.key.topic_id not in new.topics_by_id:
                self._fence(led)

    def leadership_changed(self, topic: str, index: int, leads: bool, leader_epoch: int) -> None:
        """Give up the share partitions of a partition that this broker leads no more."""
        for led in tuple(self._led_at.get(TopicPartition(topic, index), {}).values()):
            if not (leads and led.is_led):
                self._fence(led)

    def drop_group(self, group_id: str) -> None:
        """Give up the share partitions of a group without sessions here."""
        for led in tuple(self._led.values()):
            if led.key.group_id == group_id:
                self._fence(led)

    def _fence(self, led: LedPartition) -> None:
        if self._led.get(led.key) is led:
            del self._led[led.key]
            place = led.partition.topic_partition
            del self._led_at[place][led.key]
            if not self._led_at[place]:
                del self._led_at[place]
        led.state = LedState.FENCED
        if led.timer is not None:
            led.timer.cancel()
            led.timer = None
        self._waiters.wake(led)

    async def _load(self, led: LedPartition) -> None:
        """Load the state; what an earlier one of this key is still writing comes first."""
        key, began = led.key, self.now
        try:
            writer = self._writers.get(key)
            if writer is not None:
                await asyncio.wait((writer,))
            stored = await self._store.read(key, led.leader_epoch)
            start = stored.start_offset
            if start == UNKNOWN:
                start = await self._find_offset(led.partition, self.settings.begins_at(key.group_id))
            led.machine.restore(start, stored.batches)
            led.state_epoch = stored.state_epoch
        except Exception as error:
            led.error = _shown(error)
            logger.warning(
                "Group %s: its share of %s-%d cannot be loaded: %s",
                shortened(key.group_id),
                *led.partition.topic_partition,
                error,
            )
            self._fence(led)
            return
        self.counts.load(self.now - began, self.now)
        if led.state is LedState.LOADING:
            led.state = LedState.ACTIVE
            self._waiters.wake(led)

    # --- decisions ------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """The time in seconds, as the locks count it."""
        return self._clock.monotonic()

    def acquired(self, led: LedPartition) -> None:
        """Note that records were acquired: their locks will end."""
        self._arm(led)

    async def acknowledge(
        self,
        group_id: str,
        member_id: str,
        acknowledgements: Mapping[ShareKey, Sequence[Acknowledgement]],
        turn: Turn,
    ) -> dict[ShareKey, KafkaError]:
        """Store what a member says of records; return the errors.

        The changes begin at once, before anything else than the next turn is awaited. Each partition changes
        on its own: other requests may see some of them changed.
        """
        waiting: dict[ShareKey, _Done] = {}
        errors: dict[ShareKey, KafkaError] = {}
        traffic: dict[ShareKey, TopicTraffic] = {}
        for key, batches in acknowledgements.items():
            if turn.is_over():
                await turn.end()
            led = self.find(key)
            if led is None:
                errors[key] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            if led.partition.traffic is not None:
                traffic[key] = led.partition.traffic
            try:
                change = led.machine.acknowledge(member_id, batches, now=self.now)
            except KafkaError as error:
                errors[key] = error
                continue
            waiting[key] = self._decide(led, change)
        for key, outcome in waiting.items():
            if turn.is_over():
                await turn.end()
            refused = await outcome
            if refused is None:
                self.counts.acknowledge(acknowledgements[key])
            else:
                errors[key] = refused
        for topic in set(traffic.values()):
            topic.share_acknowledgements += 1
        for topic in {traffic[key] for key in errors if key in traffic}:
            topic.failed_share_acknowledgements += 1
        return errors

    def release(self, member_id: str, keys: Iterable[ShareKey]) -> None:
        """Make what a member has acquired available again; nobody waits until that is stored."""
        for key in keys:
            led = self.find(key)
            if led is not None:
                self._decide(led, led.machine.release(member_id))

    def _decide(self, led: LedPartition, change: StateChange) -> _Done:
        """Store a change; the future is its error, or None."""
        done: _Done = asyncio.get_running_loop().create_future()
        if change.batches:
            self._write(led, change, change.batches, done)
        else:
            done.set_result(None)
        self._arm(led)
        return done

    # --- locks ----------------------------------------------------------------------------------------

    def _arm(self, led: LedPartition) -> None:
        """Let a timer fire when the next lock ends."""
        deadline = led.machine.next_deadline()
        if deadline is None or led.state is LedState.FENCED:
            return
        if led.timer is not None:
            if led.timer_at <= deadline:
                return
            led.timer.cancel()
        led.timer_at = deadline
        led.timer = self._timers.call_later(max(deadline - self.now, 0), lambda: self._expire(led))

    def _expire(self, led: LedPartition) -> None:
        led.timer = None
        batches = led.machine.expire(self.now + CLOSE_ENOUGH)
        if batches:
            led.lock_timeouts += sum(each.last - each.first + 1 for each in batches)
            self._write(led, None, batches, asyncio.get_running_loop().create_future())
            self._waiters.wake(led)
        self._arm(led)

    # --- writes ---------------------------------------------------------------------------------------

    def _write(
        self, led: LedPartition, change: StateChange | None, batches: Sequence[StoredBatch], done: _Done
    ) -> None:
        self._decided.setdefault(led, []).append((change, batches, done))
        if led.key not in self._writers:
            self._writers[led.key] = self._start(self._write_all(led.key))

    async def _write_all(self, key: ShareKey) -> None:
        """Write what was decided, until nothing is left."""
        while (led := next((each for each in self._decided if each.key == key), None)) is not None:
            decided = self._decided.pop(led)
            error = await self._written(led, [batch for _, batches, _ in decided for batch in batches])
            for change, _, done in decided:
                if change is not None and error is None:
                    led.machine.committed(change)
                elif change is not None:
                    led.machine.failed(change, self.now)
                if not done.done():
                    done.set_result(error)
            if error is not None and error.code in _FENCED:
                self._fence(led)
            self._arm(led)
            self._waiters.wake(led)
        del self._writers[key]

    async def _written(self, led: LedPartition, batches: Sequence[StoredBatch]) -> KafkaError | None:
        """Write batches; return the error for the members."""
        machine = led.machine
        try:
            await self._store.write(
                led.key,
                state_epoch=led.state_epoch,
                leader_epoch=led.leader_epoch,
                start_offset=machine.start_offset,
                delivery_complete_count=machine.delivery_complete_count,
                batches=batches,
            )
        except Exception as error:
            logger.warning(
                "Group %s: its share of %s-%d cannot be stored: %s",
                shortened(led.key.group_id),
                *led.partition.topic_partition,
                error,
            )
            return _shown(error)
        return None

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _shown(error: Exception) -> KafkaError:
    """The error for a member."""
    if isinstance(error, KafkaError):
        return KafkaError(_SHOWN.get(error.code, ErrorCode.UNKNOWN_SERVER_ERROR), error.message)
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
