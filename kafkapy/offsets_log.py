"""The partitions of `__consumer_offsets` on this broker, as the group coordinator uses them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkapy.groups.offsets_topic import Done
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.storage.validate import AppendOrigin, prepare_batches
from kafkapy.topic_names import GROUP_METADATA_TOPIC

if TYPE_CHECKING:
    import asyncio

    from kafkapy.broker import BrokerCore

COMMIT_SECONDS: Final = 5.0
"""How long an append may take to be committed (offsets.commit.timeout.ms in Apache Kafka)."""

READ_BYTES: Final = 1 << 20


class LocalOffsetsLog:
    """Reads and appends through this broker's own replicas (`kafkapy.groups.offsets_topic.OffsetsLog`)."""

    def __init__(self, broker: BrokerCore) -> None:
        self._broker = broker

    def partition_count(self) -> int:
        """How many partitions the topic has; 0 while it does not exist."""
        topic = self._broker.metadata.image.topics.get(GROUP_METADATA_TOPIC)
        return 0 if topic is None else len(topic.partitions)

    async def create(self) -> None:
        """Make the topic if it is not there. Raises KafkaError."""
        await self._broker.admin.ensure_internal_topic(GROUP_METADATA_TOPIC)

    def is_empty(self, partition: int) -> bool:
        """Whether there is nothing to read in the partition."""
        log = self._broker.replicas.partition(GROUP_METADATA_TOPIC, partition).log
        return log.log_start_offset == log.log_end_offset

    def append(self, partition: int, batch: bytearray, done: Done) -> None:
        """Append a batch; `done` is called once, when it is committed or has failed, possibly at once."""
        now_ms = self._broker.clock.now_ms()
        origin = AppendOrigin.COORDINATOR
        try:
            target = self._broker.replicas.partition(GROUP_METADATA_TOPIC, partition)
            prepared = prepare_batches(
                memoryview(batch), config=target.log.config, origin=origin, now_ms=now_ms
            )
            info = target.append(prepared, origin=origin, now_ms=now_ms)
            if not target.is_committed(info.last_offset + 1):
                committed = target.watch_commit(info.last_offset + 1, COMMIT_SECONDS)
                committed.add_done_callback(partial(_tell, done))
                return
        except KafkaError as error:
            done(error.code)
            return
        done(ErrorCode.NONE)

    async def read(self, partition: int) -> AsyncIterator[bytes]:
        """All batches of a partition, whole and in order. Raises KafkaError where they cannot be read."""
        log = self._broker.replicas.partition(GROUP_METADATA_TOPIC, partition).log
        offset = log.log_start_offset
        while (found := log.read(offset, READ_BYTES, upper_bound=log.high_watermark)) is not None:
            try:
                data = await self._broker.blocking(found.slice.read)
            finally:
                found.slice.release()
            offset = found.end_offset
            yield data


def _tell(done: Done, committed: asyncio.Future[bool]) -> None:
    if committed.cancelled():
        done(ErrorCode.REQUEST_TIMED_OUT)
        return
    error = committed.exception()
    if isinstance(error, KafkaError):
        done(error.code)
    elif error is not None:
        done(ErrorCode.UNKNOWN_SERVER_ERROR)
    else:
        done(ErrorCode.NONE if committed.result() else ErrorCode.REQUEST_TIMED_OUT)
