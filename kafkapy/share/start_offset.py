"""Where a share group begins in a partition: share.auto.offset.reset.

Source: Apache Kafka's ShareFetchUtils (offsetForEarliestTimestamp and its like).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kafkapy.loop.clock import Clock
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.replicas.partition import Partition
from kafkapy.share.settings import EARLIEST, LATEST
from kafkapy.storage.log.log_reader import TimestampOffset
from kafkapy.storage.log.timestamp_search import LogChangedError


class StartOffsets:
    """Finds start offsets."""

    def __init__(
        self, clock: Clock, *, blocking: Callable[..., Awaitable[Any]], max_decompressed: Callable[[], int]
    ) -> None:
        """`blocking(call, *args)` runs a long call in a worker thread.

        `max_decompressed` returns the most bytes to which a batch may decompress.
        """
        self._clock = clock
        self._blocking = blocking
        self._max_decompressed = max_decompressed

    async def find(self, partition: Partition, begins_at: str | int) -> int:
        """The offset of `ShareSettings.begins_at`.

        Raises:
            KafkaError: it cannot be found now.
        """
        if begins_at == EARLIEST:
            return partition.log.log_start_offset
        if not partition.has_committed_epoch_start:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
        if isinstance(begins_at, str):
            assert begins_at == LATEST
            return partition.readable_end(read_committed=False)
        found = await self._search(partition, self._clock.now_ms() - begins_at)
        end = partition.readable_end(read_committed=False)
        return end if found is None else min(found.offset, end)

    async def _search(self, partition: Partition, timestamp: int) -> TimestampOffset | None:
        while True:
            search = partition.log.search(timestamp, self._max_decompressed())
            await self._blocking(search.run)
            try:
                return search.result()
            except LogChangedError:
                continue
