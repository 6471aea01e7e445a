"""Producer ids, each given once in the life of the cluster.

A broker reserves a block of 1000 ids in `/latest_producer_id_block` by compare-and-set, and hands them out
from memory. What is left of a block when the broker stops is never used. Source: Kafka's ProducerIdsBlock and
ZkProducerIdManager (KIP-98).
"""

from __future__ import annotations

import asyncio

from kafkapy.metadata import znodes
from kafkapy.metadata.store import BadVersionError, MetadataStore, MetadataStoreError
from kafkapy.metadata.znodes import PRODUCER_ID_BLOCK_SIZE, UNKNOWN_PRODUCER_IDS, ProducerIdBlock
from kafkapy.protocol.errors import ErrorCode, KafkaError

_LAST_ID = 2**63 - 1


class ProducerIds:
    """Hands out producer ids."""

    def __init__(self, store: MetadataStore, broker_id: int) -> None:
        self._store = store
        self._broker_id = broker_id
        self._next = 0
        self._end = 0
        self._reserving = asyncio.Lock()

    async def begin_behind(self, highest: int) -> None:
        """Give out only ids well above `highest`, the highest id in logs of unknown origin.

        A good many ids above it are skipped, too: they may belong to producers that were idle for so long
        that no log knows them any more.

        Raises:
            MetadataStoreError: the store failed.
        """
        block = ProducerIdBlock(self._broker_id, 0, highest + UNKNOWN_PRODUCER_IDS)
        while True:
            node = await self._store.get(znodes.PRODUCER_ID_BLOCK)
            if node.data and znodes.decode_producer_id_block(node.data).last >= block.last:
                return
            try:
                await self._store.set(
                    znodes.PRODUCER_ID_BLOCK, znodes.encode_producer_id_block(block), node.stat.version
                )
            except BadVersionError:
                continue
            return

    async def next_producer_id(self) -> int:
        """An id that nobody had before.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS (the client retries) when no block can be reserved.
        """
        while self._next == self._end:
            async with self._reserving:
                if self._next == self._end:
                    await self._reserve()
        producer_id = self._next
        self._next += 1
        return producer_id

    async def _reserve(self) -> None:
        """Take the next block; others may be doing the same."""
        while True:
            try:
                node = await self._store.get(znodes.PRODUCER_ID_BLOCK)
                first = znodes.decode_producer_id_block(node.data).last + 1 if node.data else 0
                if first > _LAST_ID - PRODUCER_ID_BLOCK_SIZE:
                    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "Have exhausted all producerIds.")
                block = ProducerIdBlock(self._broker_id, first, first + PRODUCER_ID_BLOCK_SIZE - 1)
                await self._store.set(
                    znodes.PRODUCER_ID_BLOCK, znodes.encode_producer_id_block(block), node.stat.version
                )
            except BadVersionError:
                continue
            except MetadataStoreError as error:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error
            self._next, self._end = first, first + PRODUCER_ID_BLOCK_SIZE
            return
