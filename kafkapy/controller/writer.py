"""The way a change takes: checked against the image, committed to the tree, published, then answered.

One change at a time: nothing alters the image between a check and the commit that it allows. Only the
broker that holds `/controller` changes topics and configs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from kafkapy.metadata import znodes
from kafkapy.metadata.cache import MetadataCache
from kafkapy.metadata.image import MetadataImage
from kafkapy.metadata.store import (
    Create,
    MetadataStore,
    MetadataStoreError,
    NodeExistsError,
    Operation,
    SetData,
)
from kafkapy.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)


class MetadataWriter:
    """Commits changes and publishes them."""

    def __init__(self, store: MetadataStore, cache: MetadataCache) -> None:
        self.turn = asyncio.Lock()
        """Held from the check of a change to its publication."""
        self.controller_epoch = 0
        self._store = store
        self._cache = cache
        self._is_controller = False

    @property
    def image(self) -> MetadataImage:
        return self._cache.image

    async def elect(self, broker_id: int, now_ms: int) -> int:
        """Become the controller unless another broker is; the controller's id."""
        epoch = await self._store.get(znodes.CONTROLLER_EPOCH)
        try:
            await self._store.multi(
                [
                    Create(znodes.CONTROLLER, znodes.encode_controller(broker_id, now_ms), ephemeral=True),
                    SetData(znodes.CONTROLLER_EPOCH, b"%d" % (int(epoch.data) + 1), epoch.stat.version),
                ]
            )
        except NodeExistsError:
            return znodes.decode_controller((await self._store.get(znodes.CONTROLLER)).data)
        self.controller_epoch = int(epoch.data) + 1
        self._is_controller = True
        return broker_id

    def require_controller(self) -> None:
        """Raises KafkaError NOT_CONTROLLER: the client asks another broker."""
        if not self._is_controller:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)

    async def commit(self, operations: Sequence[Operation]) -> list[str | int | None]:
        """Commit all operations or none.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; nothing was changed.
        """
        try:
            return await self._store.multi(operations)
        except MetadataStoreError as error:
            logger.error("cannot change the cluster's metadata: %r", error)
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"The metadata cannot be changed: {error}"
            ) from error

    async def publish_new(self, image: MetadataImage) -> None:
        """Publish an image with new partitions, which take their time to make. The turn is held."""
        await self._cache.prepare(image)
        self._cache.publish(image)

    async def publish_deletion(self, image: MetadataImage) -> None:
        """Publish an image without some partitions, whose logs take their time to go. The turn is held."""
        self._cache.publish(image)
        await self._cache.settle()

    def publish(self, image: MetadataImage) -> None:
        self._cache.publish(image)
