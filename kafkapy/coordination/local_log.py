"""The partitions of an internal topic on this broker, for its coordinator.

Appends to a partition are reported in order, each when it is committed, without a timeout. If an append timed
out and were committed later, the coordinator's state would lack records of its log. When this broker loses
the leadership, the coordinator drops its state, and the appends that wait have failed.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafkapy.coordination.topic_log import Done
from kafkapy.loop.cold_reads import Provide
from kafkapy.metadata.cache import MetadataCache
from kafkapy.protocol.errors import NONE, ErrorCode, KafkaError
from kafkapy.protocol.records import BatchHeader
from kafkapy.replicas.partition import Partition
from kafkapy.replicas.replica_manager import ReplicaManager
from kafkapy.storage.damage.damage import DamagedOffsetsError
from kafkapy.storage.disk.errors import NotReadyError, TransientStorageError
from kafkapy.storage.log.marker_batch import prepare_marker
from kafkapy.storage.log.markers import TransactionMarker
from kafkapy.storage.log.validate import COORDINATOR, PreparedBatches, prepare_built
from kafkapy.storage.log.verification import Verification

if TYPE_CHECKING:
    import asyncio

WATCH_SECONDS: Final = 60.0
"""The seconds after which a watch without a wake is renewed."""

READ_BYTES: Final = 1 << 20

logger = logging.getLogger(__name__)


class LocalTopicLog:
    """A `TopicLog` (topic_log.py) that reads and appends through this broker's replicas."""

    load_seconds: float = 10.0
    """How long a new leader waits until its log is committed, before it reads the log as it is."""

    def __init__(
        self,
        topic: str,
        *,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        blocking: Callable[..., Awaitable[Any]],
        provide: Provide,
        create: Callable[[str], Awaitable[object]],
    ) -> None:
        """Use the given parts of the broker.

        `blocking` runs a call in a worker thread. `provide` has a thread provide what a read lacks.
        `create` creates the internal topic if it is missing.
        """
        self.topic = topic
        self._metadata = metadata
        self._replicas = replicas
        self._blocking = blocking
        self._provide = provide
        self._create = create
        self._waiting: dict[int, deque[tuple[int, Done]]] = {}
        """By partition: the uncommitted appends, each with the offset after it and its callback."""

    def partition_count(self) -> int:
        """The number of the topic's partitions; 0 while it does not exist."""
        topic = self._metadata.image.topics.get(self.topic)
        return 0 if topic is None else len(topic.partitions)

    async def create(self) -> None:
        """Create the topic if it is missing.

        Raises KafkaError.
        """
        await self._create(self.topic)

    def is_empty(self, partition: int) -> bool:
        """Whether there is nothing to read in the partition, which this broker must lead."""
        target = self._replicas.partition(self.topic, partition)
        target.require_online()
        target.replication.require_leader()
        log = target.log
        return log.log_start_offset == log.log_end_offset

    def end_offset(self, partition: int) -> int:
        """The offset of the next record of a partition, which this broker leads."""
        return self._replicas.partition(self.topic, partition).log.log_end_offset

    def is_committed(self, partition: int, offset: int) -> bool:
        """Whether everything below an offset is committed.

        Raises KafkaError if this broker does not lead the partition.
        """
        return self._replicas.partition(self.topic, partition).is_committed(offset)

    def delete_before(self, partition: int, offset: int) -> None:
        """Delete the records below an offset, which are committed: nobody needs them.

        Raises KafkaError if this broker does not lead the partition.
        """
        self._replicas.partition(self.topic, partition).delete_records(offset)

    def leader_epoch(self, partition: int) -> int:
        """The leader epoch of a partition, which this broker leads."""
        return self._replicas.partition(self.topic, partition).leader_epoch

    def max_batch_bytes(self, partition: int) -> int:
        """The most bytes of a batch that the partition takes (max.message.bytes).

        Raises:
            KafkaError: the partition cannot be used.
        """
        return self._replicas.partition(self.topic, partition).log.config.max_message_bytes

    def append(
        self,
        partition: int,
        header: BatchHeader,
        batch: memoryview,
        *,
        verification: Verification | None = None,
    ) -> ErrorCode | None:
        """Append a batch that was built now, and has the time as its timestamp.

        Returns NONE if it is committed at once, the error if it is refused, and otherwise None: see
        `when_committed`.
        """
        now_ms = header.max_timestamp
        try:
            target = self._replicas.partition(self.topic, partition)
            prepared = prepare_built(header, batch, config=target.log.config, now_ms=now_ms)
            return self._append(partition, target, prepared, now_ms, verification)
        except (KafkaError, MemoryError) as error:
            return _refusal(error)

    def append_marker(
        self, partition: int, producer_id: int, producer_epoch: int, marker: TransactionMarker
    ) -> ErrorCode | None:
        """Append the marker of a transaction; the result is that of `append`."""
        try:
            target = self._replicas.partition(self.topic, partition)
            prepared = prepare_marker(producer_id, producer_epoch, marker)
            return self._append(partition, target, prepared, marker.timestamp, None)
        except (KafkaError, MemoryError) as error:
            return _refusal(error)

    def _append(
        self,
        partition: int,
        target: Partition,
        prepared: PreparedBatches,
        now_ms: int,
        verification: Verification | None,
    ) -> ErrorCode | None:
        info = target.append(prepared, origin=COORDINATOR, now_ms=now_ms, verification=verification)
        if partition not in self._waiting and target.is_committed(info.last_offset + 1):
            return NONE
        return None

    def when_committed(self, partition: int, done: Done) -> None:
        """Call `done` later: when the append that was just made is committed, or has failed."""
        target = self._replicas.partition(self.topic, partition)
        end_offset = target.log.log_end_offset
        waiting = self._waiting.get(partition)
        if waiting is None:
            self._waiting[partition] = deque([(end_offset, done)])
            self._watch(partition, target)
        else:
            waiting.append((end_offset, done))

    @property
    def has_uncommitted(self) -> bool:
        """Whether an append waits to be committed."""
        return bool(self._waiting)

    def _watch(self, partition: int, target: Partition) -> None:
        """Check the appends again when the partition's high watermark moves."""
        waiting = self._waiting[partition]
        committed = target.watch_commit(waiting[0][0], WATCH_SECONDS)
        committed.add_done_callback(partial(self._report, partition, target, waiting))

    def _report(
        self,
        partition: int,
        target: Partition,
        waiting: deque[tuple[int, Done]],
        committed: asyncio.Future[bool],
    ) -> None:
        if committed.cancelled():
            return
        error = committed.exception()
        if self._waiting.get(partition) is not waiting:
            return  # reported as failed when the leadership was lost
        if error is not None:
            del self._waiting[partition]
            code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
            for _, done in waiting:
                done(code)
            return
        while waiting and waiting[0][0] <= target.log.high_watermark:
            _, done = waiting.popleft()
            done(ErrorCode.NONE)
        if waiting:
            self._watch(partition, target)
        else:
            del self._waiting[partition]

    def leadership_lost(self, partition: int) -> None:
        """Report the appends that wait as failed with NOT_LEADER_OR_FOLLOWER."""
        for _, done in self._waiting.pop(partition, ()):
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    async def wait_for_commits(self, partition: int) -> int:
        """Wait until what is in the log of a partition now is committed; return its end.

        An earlier coordinator may have written it. With too few in-sync replicas, nothing is committed for
        long. Then this does not wait, as Apache Kafka never does: this broker keeps these records as long as
        it leads.

        Raises:
            KafkaError: the partition cannot be read.
        """
        target = self._replicas.partition(self.topic, partition)
        end_offset = target.log.log_end_offset
        while not target.is_committed(end_offset):
            in_time = await target.watch_commit(end_offset, self.load_seconds)
            if not in_time and target.replication.has_others:
                break
        return end_offset

    async def read(self, partition: int, end_offset: int) -> AsyncIterator[bytes]:
        """Read the batches of a partition below an offset, in order; no result ends within a batch.

        Damaged offsets are skipped: their records are lost, and the state is as if they had not been written.

        Raises:
            KafkaError: they cannot be read.
        """
        log = self._replicas.partition(self.topic, partition).log
        offset = log.log_start_offset
        while True:
            try:
                with log.log_directory.files.cached_only(or_wait=True):
                    found = log.read(offset, READ_BYTES, upper_bound=end_offset)
            except NotReadyError as missing:
                await self._provide(missing)
                continue
            except DamagedOffsetsError as error:
                logger.error(
                    "%s-%d: the records at offsets %d to %d are lost; the state before them applies",
                    self.topic,
                    partition,
                    offset,
                    error.end_offset - 1,
                )
                offset = error.end_offset
                continue
            if found is None:
                return
            try:
                data = await self._blocking(found.slice.read)
            except (OSError, MemoryError) as error:
                raise log.translated("reading", error) from error
            finally:
                found.slice.release()
            offset = found.end_offset
            yield data


def _refusal(error: KafkaError | MemoryError) -> ErrorCode:
    """The outcome of an append that raised an error."""
    if isinstance(error, (TransientStorageError, MemoryError)):
        # The partition has not changed, and can be written again when there is space, or a descriptor.
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error.code
