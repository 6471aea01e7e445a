"""The share coordinator: the states of share partitions, in `__share_group_state`.

This broker coordinates the share partitions of every partition of the topic that it leads
(`kafkapy.coordination.runtime`). `states.py` decides what a request changes. The change is in memory at once,
and the next one builds on it; the client is answered when it is committed.

The records before the oldest snapshot that counts are deleted at intervals. A state that is not written for
long gets a new snapshot then, so that it does not keep the records of all others. If none of a partition has
changed there is nothing to delete, and no snapshot is written.

Source: Apache Kafka's ShareCoordinatorService, ShareCoordinatorShard, ShareCoordinatorOffsetsManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from kafkapy.coordination.commit_deadlines import CommitDeadlines
from kafkapy.coordination.errors import describe
from kafkapy.coordination.event_writes import EventWrites
from kafkapy.coordination.runtime import CoordinatorRuntime
from kafkapy.coordination.timers import Cancellable, Timers
from kafkapy.coordination.topic_log import TopicLog
from kafkapy.loop.clock import Clock
from kafkapy.loop.latency_sample import LatencySample
from kafkapy.metadata.image import MetadataImage
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.initialize_share_group_state import PartitionData as InitialState
from kafkapy.protocol.messages.write_share_group_state import PartitionData as WrittenState
from kafkapy.share import states
from kafkapy.share.state import UNKNOWN, ShareState
from kafkapy.share.state_records import ShareKey, encode_record
from kafkapy.share.state_replay import ShareStateReplay

PRUNE_SECONDS: Final = 300.0
"""The interval at which old records are deleted; share.coordinator.state.topic.prune.interval.ms in Kafka."""
COLD_MS: Final = 300_000
"""After this time without a snapshot a state gets one.

In Kafka it is share.coordinator.cold.partition.snapshot.interval.ms.
"""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShareCoordinatorConfig:
    """The settings, none of which is dynamic: they are read once, at start."""

    max_updates: int = states.MAX_UPDATES
    write_timeout_ms: int = 5_000

    @classmethod
    def from_broker(cls, config: Mapping[str, Any]) -> Self:
        """The settings of a broker configuration."""
        return cls(
            max_updates=config["share.coordinator.snapshot.update.records.per.snapshot"],
            write_timeout_ms=config["share.coordinator.write.timeout.ms"],
        )


class _Redundant(NamedTuple):
    """The records of a partition that no state in memory needs."""

    end_offset: int
    """The offset after them."""
    needs: int
    """Everything below this offset must be committed before they are deleted.

    Otherwise the snapshots that replace them may be lost, and nothing would be left of their states.
    """


class ShareCoordinator:
    """The share partitions of this broker (`kafkapy.coordination.runtime.StateMachine`)."""

    def __init__(
        self,
        config: ShareCoordinatorConfig,
        clock: Clock,
        timers: Timers,
        log: TopicLog,
        *,
        blocking: Callable[..., Awaitable[Any]],
    ) -> None:
        """`blocking(call, *args)` runs a long call in a worker thread."""
        self.runtime = CoordinatorRuntime(self, log, clock, timers, blocking=blocking)
        self._config = config
        self._clock = clock
        self._timers = timers
        self._log = log
        self._image = MetadataImage()
        self._writes = EventWrites(self.runtime, CommitDeadlines(timers, config.write_timeout_ms / 1000))
        self.states: dict[ShareKey, ShareState] = {}
        """Those of the partitions that are loaded."""
        self._redundant: dict[int, _Redundant] = {}
        """By partition: the states to delete next."""
        self._maybe_cold: dict[int, list[ShareKey]] = {}
        """By partition: the states that may need a snapshot, because they were not written for long."""
        self._pruning: Cancellable | None = None
        self.writes = 0
        """The states that were written."""
        self.write_times: LatencySample[float] = LatencySample(clock.monotonic())
        """How many seconds that took, until they were committed."""

    # --- the topic ------------------------------------------------------------------------------------

    def start(self, image: MetadataImage) -> None:
        """Load the states in the background, and delete old records at intervals."""
        self._image = image
        self.runtime.open_topic()
        self._schedule_pruning()

    async def stop(self) -> None:
        """Unload all states, and cancel all timers and tasks."""
        if self._pruning is not None:
            self._pruning.cancel()
        await self.runtime.stop()

    def leadership_changed(self, topic: str, partition: int, leads: bool, leader_epoch: int) -> None:
        """Load or unload a partition after this broker became its leader or ceased to be.

        It is called for each change, in their order.
        """
        if topic == self._log.topic:
            self.runtime.leadership_changed(partition, leads=leads, leader_epoch=leader_epoch)

    def metadata_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Forget the share partitions of deleted topics."""
        self.runtime.metadata_changed(old, new)
        self._image = new
        changed = [old.topics[name] for name in new.changed_topics(old) if name in old.topics]
        if any(topic.id not in new.topics_by_id for topic in changed):
            self._forget_deleted()

    def _forget_deleted(self) -> None:
        for key in tuple(self.states):
            if key.topic_id not in self._image.topics_by_id and self.runtime.is_active(key.coordinator_key):
                self._write(key, None, _ignore)

    def replay(self, name: str) -> ShareStateReplay:
        """Begin to read a partition."""
        return ShareStateReplay(name)

    def install(self, loaded: dict[ShareKey, ShareState]) -> str:
        """Add the states of a partition."""
        self.states.update(loaded)
        self._timers.call_later(0, self._forget_deleted)  # those that were deleted meanwhile
        return f"{len(loaded)} share partitions"

    def unload(self, partitions: Collection[int]) -> None:
        """Drop the states of these partitions."""
        for partition in partitions:
            self._redundant.pop(partition, None)
        for key in tuple(self.states):
            if self.runtime.partition_of(key.coordinator_key) in partitions:
                del self.states[key]

    # --- requests -------------------------------------------------------------------------------------

    async def initialize(self, key: ShareKey, request: InitialState) -> None:
        """Begin at an offset.

        Raises:
            KafkaError: it is refused, or cannot be written.
        """
        state = self.summary(key)
        await self._written(key, states.initialization(state, request, now_ms=self._clock.now_ms()))

    async def read(self, key: ShareKey, leader_epoch: int) -> ShareState:
        """The state, for the leader of the partition; earlier leaders are fenced then.

        Raises:
            KafkaError: it is refused, or cannot be written.
        """
        state = states.require_readable(self._state(key), leader_epoch)
        self._require_partition(key)
        if leader_epoch not in (UNKNOWN, state.leader_epoch):
            now, limit = self._clock.now_ms(), self._config.max_updates
            await self._written(key, states.new_leader(state, leader_epoch, now_ms=now, max_updates=limit))
        return state

    async def write(self, key: ShareKey, request: WrittenState) -> None:
        """Store what the leader of the partition decided.

        Raises:
            KafkaError: it is refused, or cannot be written.
        """
        now, limit = self._clock.now_ms(), self._config.max_updates
        record = states.write(self._state(key), request, now_ms=now, max_updates=limit)
        self._require_partition(key)
        began = self._clock.monotonic()
        await self._written(key, record)
        ended = self._clock.monotonic()
        self.writes += 1
        self.write_times.count(ended - began, ended)

    async def delete(self, key: ShareKey) -> None:
        """Forget the state, if there is one.

        Raises:
            KafkaError: it is refused, or cannot be written.
        """
        if self.summary(key) is not None:
            await self._written(key, None)

    def summary(self, key: ShareKey) -> ShareState | None:
        """The state; None if there is none.

        Raises:
            KafkaError: it is refused.
        """
        state = self._state(key)
        self._require_partition(key)
        return state

    def _state(self, key: ShareKey) -> ShareState | None:
        if key.partition < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        self.runtime.require_active(key.coordinator_key)
        return self.states.get(key)

    def _require_partition(self, key: ShareKey) -> None:
        topic = self._image.topics_by_id.get(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    # --- writes ---------------------------------------------------------------------------------------

    async def _written(self, key: ShareKey, record: states.Record) -> None:
        """Write a record, and wait until it is committed; raises KafkaError."""
        written: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self._write(key, record, lambda error: None if written.done() else written.set_result(error))
        error = await written
        if error:
            raise KafkaError(error)

    def _write(self, key: ShareKey, record: states.Record, done: Callable[[ErrorCode], None]) -> None:
        partition = self.runtime.partition_of(key.coordinator_key)
        try:
            offset = self._log.end_offset(partition)
        except KafkaError as error:
            done(error.code)
            return

        def accepted() -> None:
            state = states.replayed(self.states.get(key), record, offset)
            if state is None:
                self.states.pop(key, None)
            else:
                self.states[key] = state

        self._writes.write(
            key.coordinator_key,
            [encode_record(key, record)],
            accepted=accepted,
            refused=lambda: None,
            done=done,
        )

    # --- old records ----------------------------------------------------------------------------------

    def _schedule_pruning(self) -> None:
        self._pruning = self._timers.call_later(PRUNE_SECONDS, self._prune)

    def _prune(self) -> None:
        """Delete the records that were found redundant before, and find those for the next time."""
        for key in self.states:
            self._maybe_cold.setdefault(self.runtime.partition_of(key.coordinator_key), []).append(key)
        for partition in self.runtime.active_partitions:
            try:
                self._delete_redundant(partition)
                if keys := self._maybe_cold.get(partition):
                    needed = min(self.states[key].snapshot_offset for key in keys)
                    self._redundant[partition] = _Redundant(needed, self._log.end_offset(partition))
            except KafkaError as error:
                logger.info(
                    "Old records of %s-%d are not deleted now: %s",
                    self._log.topic,
                    partition,
                    describe(error),
                )
        self._snapshot_cold()

    def _delete_redundant(self, partition: int) -> None:
        found = self._redundant.pop(partition, None)
        if found is not None and found.end_offset > 0 and self._log.is_committed(partition, found.needs):
            self._log.delete_before(partition, found.end_offset)

    def _snapshot_cold(self) -> None:
        """Write snapshots of the states that have been without one for long.

        It is done for one partition after another, with other events in between.
        """
        if not self._maybe_cold:
            self._schedule_pruning()
            return
        self._pruning = self._timers.call_later(0, self._snapshot_cold)
        partition, keys = self._maybe_cold.popitem()
        if partition not in self.runtime.active_partitions:
            return
        found = [(key, self.states[key]) for key in keys if key in self.states]
        if not any(state.updates or state.create_timestamp == state.write_timestamp for _, state in found):
            return  # nothing has happened since all of them got one
        now = self._clock.now_ms()
        for key, state in found:
            if now - state.write_timestamp >= COLD_MS:
                self._write(key, states.cold_snapshot(state, now_ms=now), _ignore)


def _ignore(error: ErrorCode) -> None:
    """Ignore the error: a later event does it again."""
