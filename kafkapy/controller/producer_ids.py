"""Producer ids, each assigned once in the life of the cluster.

A broker reserves a block of 1000 ids in `/latest_producer_id_block` by compare-and-set, and assigns them
from memory. It reserves the next block before they are used up. A broker of a cluster reserves its first one
at the start, so that producers begin while ZooKeeper is away. Ids that are left when the broker stops are
never used. Source: Kafka's ProducerIdsBlock, ZkProducerIdManager (KIP-98) and RPCProducerIdManager (KIP-730).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from kafkapy.metadata import znodes
from kafkapy.metadata.store import BadVersionError, MetadataStore, MetadataStoreError
from kafkapy.metadata.znodes import PRODUCER_ID_BLOCK_SIZE, UNKNOWN_PRODUCER_IDS, ProducerIdBlock
from kafkapy.protocol.errors import ErrorCode, KafkaError

_LAST_ID = 2**63 - 1
_RESERVE_BELOW: Final = PRODUCER_ID_BLOCK_SIZE // 10
"""The number of ids left at which the next block is reserved, as in Kafka."""

logger = logging.getLogger(__name__)


class ProducerIds:
    """Assigns producer ids."""

    def __init__(self, store: MetadataStore, broker_id: int) -> None:
        self._store = store
        self._broker_id = broker_id
        self._next = 0
        self._end = 0
        self._spare: ProducerIdBlock | None = None
        self._reserving = asyncio.Lock()
        self._ahead: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """Stop reserving blocks."""
        if self._ahead is not None:
            self._ahead.cancel()
            await asyncio.wait([self._ahead])

    async def begin_after(self, highest: int) -> None:
        """Assign only ids well above `highest`, the highest id in logs of unknown origin.

        Many ids above it are skipped too: they may belong to producers that were idle for so long that no log
        has their state any more.

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
        """An id that was never assigned before.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS (the client retries) when no block can be reserved.
        """
        while self._next == self._end:
            async with self._reserving:
                if self._next == self._end:
                    block = self._spare or await reserve_block(self._store, self._broker_id)
                    self._next, self._end, self._spare = block.first, block.last + 1, None
        producer_id = self._next
        self._next += 1
        if self._end - self._next < _RESERVE_BELOW:
            self.reserve_ahead()
        return producer_id

    def reserve_ahead(self) -> None:
        """Reserve the next block in the background, before it is needed."""
        if self._spare is None and (self._ahead is None or self._ahead.done()):
            self._ahead = asyncio.create_task(self._reserve_ahead(), name="kafkapy-producer-ids")

    async def _reserve_ahead(self) -> None:
        """Reserve a spare block, unless there is one."""
        try:
            async with self._reserving:
                if self._spare is None:
                    self._spare = await reserve_block(self._store, self._broker_id)
        except KafkaError as error:
            logger.info("no producer ids are reserved ahead: %s", error)


async def reserve_block(store: MetadataStore, broker_id: int) -> ProducerIdBlock:
    """Reserve the next block of ids for a broker.

    Other brokers may do the same at the same time.

    Raises:
        KafkaError: COORDINATOR_LOAD_IN_PROGRESS, the store failed; UNKNOWN_SERVER_ERROR, no ids are left.
    """
    while True:
        try:
            node = await store.get(znodes.PRODUCER_ID_BLOCK)
            first = znodes.decode_producer_id_block(node.data).last + 1 if node.data else 0
            if first > _LAST_ID - PRODUCER_ID_BLOCK_SIZE:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "Have exhausted all producerIds.")
            block = ProducerIdBlock(broker_id, first, first + PRODUCER_ID_BLOCK_SIZE - 1)
            await store.set(
                znodes.PRODUCER_ID_BLOCK, znodes.encode_producer_id_block(block), node.stat.version
            )
        except BadVersionError:
            continue
        except MetadataStoreError as error:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error
        return block
