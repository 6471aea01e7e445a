"""The partitions of an internal topic on this broker, as its coordinator uses them.

Appends of a partition are reported in their order, each when it is committed, however long that takes. If an
append were given up and committed after all, the coordinator would know less than its log holds.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafkapy.coordination.topic_log import Done
from kafkapy.metadata.cache import MetadataCache
from kafkapy.process.clock import Clock
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.replicas.partition import Partition
from kafkapy.replicas.replica_manager import ReplicaManager
from kafkapy.storage.damage.damage import DamagedOffsetsError
from kafkapy.storage.disk.files import TransientStorageError
from kafkapy.storage.log.validate import AppendOrigin, prepare_batches

if TYPE_CHECKING:
    import asyncio

WATCH_SECONDS: Final = 60.0
"""How long until a watch that nothing has woken is renewed."""

READ_BYTES: Final = 1 << 20

logger = logging.getLogger(__name__)


class LocalTopicLog:
    """A `TopicLog` (topic_log.py) that reads and appends through this broker's replicas."""

    def __init__(
        self,
        topic: str,
        *,
        clock: Clock,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        blocking: Callable[..., Awaitable[Any]],
        create: Callable[[str], Awaitable[object]],
    ) -> None:
        """Keep what reads and appends need.

        `blocking` runs a call in a worker thread. `create` makes an internal topic that is not there.
        """
        self.topic = topic
        self._clock = clock
        self._metadata = metadata
        self._replicas = replicas
        self._blocking = blocking
        self._create = create
        self._waiting: dict[int, deque[tuple[int, Done]]] = {}
        """By partition: appends that are not committed yet, with the offset after each and whom to tell."""

    def partition_count(self) -> int:
        """How many partitions the topic has; 0 while it does not exist."""
        topic = self._metadata.image.topics.get(self.topic)
        return 0 if topic is None else len(topic.partitions)

    async def create(self) -> None:
        """Make the topic if it is not there. Raises KafkaError."""
        await self._create(self.topic)

    def is_empty(self, partition: int) -> bool:
        """Whether there is nothing to read in the partition."""
        log = self._replicas.partition(self.topic, partition).log
        return log.log_start_offset == log.log_end_offset

    def append(self, partition: int, batch: bytearray, done: Done) -> None:
        """Append a batch; `done` is called once, possibly before this returns.

        It is called when the batch is committed or has failed.
        """
        now_ms = self._clock.now_ms()
        origin = AppendOrigin.COORDINATOR
        try:
            target = self._replicas.partition(self.topic, partition)
            prepared = prepare_batches(
                memoryview(batch), config=target.log.config, origin=origin, now_ms=now_ms
            )
            info = target.append(prepared, origin=origin, now_ms=now_ms)
            end_offset = info.last_offset + 1
            waiting = self._waiting.get(partition)
            if waiting is not None:
                waiting.append((end_offset, done))
                return
            if not target.is_committed(end_offset):
                self._waiting[partition] = deque([(end_offset, done)])
                self._watch(partition, target)
                return
        except (TransientStorageError, MemoryError):
            # The partition is as it was, and takes writes again when there is space, or a descriptor.
            done(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        except KafkaError as error:
            done(error.code)
            return
        done(ErrorCode.NONE)

    def _watch(self, partition: int, target: Partition) -> None:
        """Look again when the partition's high watermark moves."""
        end_offset, _ = self._waiting[partition][0]
        committed = target.watch_commit(end_offset, WATCH_SECONDS)
        committed.add_done_callback(partial(self._report, partition, target))

    def _report(self, partition: int, target: Partition, committed: asyncio.Future[bool]) -> None:
        if committed.cancelled():
            return
        error = committed.exception()
        waiting = self._waiting[partition]
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

    async def read(self, partition: int) -> AsyncIterator[bytes]:
        """Read all batches of a partition in order; no result ends within a batch.

        An earlier coordinator's writes may still be on their way to the disk: they are waited for. Damaged
        offsets are skipped: what they said is lost, and what they changed is as it was before.

        Raises:
            KafkaError: they cannot be read.
        """
        target = self._replicas.partition(self.topic, partition)
        log = target.log
        while log.high_watermark < log.log_end_offset:
            await target.watch_commit(log.log_end_offset, WATCH_SECONDS)
        offset = log.log_start_offset
        while True:
            try:
                found = log.read(offset, READ_BYTES, upper_bound=log.high_watermark)
            except DamagedOffsetsError as error:
                logger.error(
                    "%s-%d: what offsets %d to %d say is lost; what they changed is as it was before",
                    *(self.topic, partition, offset, error.end_offset - 1),
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
