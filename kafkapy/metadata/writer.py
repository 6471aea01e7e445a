"""Changes the metadata: a change is checked against the image, committed and published.

Only one change is made at a time: nothing alters the image between a check and the commit that it allows.
Only the broker that holds `/controller` changes topics: each transaction checks that the node of the
controller epoch has not changed since its election. Every broker changes settings and quotas, as with Apache
Kafka on ZooKeeper: those of a broker only that broker can check. Each write expects the version of the node
that the image shows. If another session has changed a node first, it is read again and the change is checked
again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from kafkapy.metadata import znodes
from kafkapy.metadata.cache import MetadataCache
from kafkapy.metadata.image import MetadataImage
from kafkapy.metadata.store import (
    BadVersionError,
    Check,
    Create,
    Delete,
    MetadataStore,
    MetadataStoreError,
    NodeError,
    NodeExistsError,
    NoNodeError,
    Operation,
    SetData,
)
from kafkapy.metadata.tree_changes import TreeChanges
from kafkapy.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

ATTEMPTS: Final = 10
"""How often a change is attempted while other sessions change the same nodes first."""

MAX_OPERATIONS: Final = 2_000
MAX_BYTES: Final = 700_000
"""The most that one transaction may hold: ZooKeeper refuses requests above 1 MiB (jute.maxbuffer)."""

OPERATION_BYTES: Final = 100
"""The bytes of an operation beside its path and data, generously."""

T = TypeVar("T")


class MetadataWriter:
    """Commits changes and publishes them."""

    def __init__(self, store: MetadataStore, cache: MetadataCache, changes: TreeChanges) -> None:
        self.turn = asyncio.Lock()
        """Held from the check of a change to its publication, and while changes by others are read."""
        self.controller_epoch = 0
        self.most_operations, self.most_bytes = MAX_OPERATIONS, MAX_BYTES
        """The most that one transaction of `commit_in_parts` holds."""
        self._store = store
        self._cache = cache
        self._changes = changes
        self._epoch_version: int | None = None
        """The version of the controller epoch's node at this broker's election; None if not controller."""

    @property
    def image(self) -> MetadataImage:
        return self._cache.image

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._epoch_version is not None

    async def elect(self, broker_id: int, now_ms: int) -> int:
        """Become the controller unless there is one; return the controller's id.

        Raises:
            MetadataStoreError: the store failed.
        """
        self._epoch_version = None
        for _ in range(ATTEMPTS):
            try:
                await self._take_controller(broker_id, now_ms)
                return broker_id
            except BadVersionError:
                continue
            except NodeExistsError:
                try:
                    return znodes.decode_controller((await self._store.get(znodes.CONTROLLER)).data)
                except NoNodeError:
                    continue
        raise MetadataStoreError(f"other brokers keep changing {znodes.CONTROLLER}")

    async def _take_controller(self, broker_id: int, now_ms: int) -> None:
        epoch = await self._store.get(znodes.CONTROLLER_EPOCH)
        await self._store.multi(
            [
                Create(znodes.CONTROLLER, znodes.encode_controller(broker_id, now_ms), ephemeral=True),
                SetData(znodes.CONTROLLER_EPOCH, b"%d" % (int(epoch.data) + 1), epoch.stat.version),
            ]
        )
        self.controller_epoch = int(epoch.data) + 1
        self._epoch_version = epoch.stat.version + 1

    async def resign(self) -> None:
        """Stop being the controller, and delete `/controller` if this broker still holds it."""
        self._epoch_version = None
        stat = await self._store.exists(znodes.CONTROLLER)
        if stat is not None and stat.owner == self._store.session_id:
            await self._store.multi([Delete(znodes.CONTROLLER, stat.version)])

    def require_controller(self) -> None:
        """Raise KafkaError NOT_CONTROLLER unless this broker is the controller."""
        if not self.is_controller:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)

    async def multi(self, operations: Sequence[Operation]) -> list[str | int | None]:
        """Commit all operations or none, as the controller.

        Raises:
            NodeError: others have changed a node; it will be read again.
            KafkaError: NOT_CONTROLLER, this broker is not the controller.
            MetadataStoreError: the store failed; if it has made the change, that is read again.
        """
        self.require_controller()
        check = Check(znodes.CONTROLLER_EPOCH, self._epoch_version or 0)
        try:
            return (await self._store.multi([check, *operations]))[1:]
        except NodeError as error:
            if error.path == check.path:
                logger.warning("another broker has become the controller")
                self._epoch_version = None
                self._changes.add([znodes.CONTROLLER])
                raise KafkaError(ErrorCode.NOT_CONTROLLER) from error
            self._changes.add(operation.path for operation in operations)
            raise
        except MetadataStoreError:
            # The store may have made the change, and only its answer was lost.
            self._changes.add(operation.path for operation in operations)
            raise

    async def commit(self, operations: Sequence[Operation]) -> list[str | int | None]:
        """Commit as `multi` does, with an error of the store as an error for clients.

        Raises:
            NodeError: others have changed a node; it will be read again.
            KafkaError: NOT_CONTROLLER, or KAFKA_STORAGE_ERROR.
        """
        try:
            return await self.multi(operations)
        except NodeError:
            raise
        except MetadataStoreError as error:
            raise _storage_error("changed", error) from error

    async def commit_settings(self, operations: Sequence[Operation]) -> list[str | int | None]:
        """Commit changes of settings, which need no controller.

        Raises:
            NodeError: others have changed a node; it will be read again.
            KafkaError: KAFKA_STORAGE_ERROR, the store failed.
        """
        try:
            return await self._store.multi(operations)
        except MetadataStoreError as error:
            # The store may have made the change, and only its answer was lost.
            self._changes.add(operation.path for operation in operations)
            if isinstance(error, NodeError):
                raise
            raise _storage_error("changed", error) from error

    async def commit_in_parts(self, operations: Sequence[Operation]) -> None:
        """Commit many operations in several transactions, none of which is too large for ZooKeeper.

        A stop in between leaves the first ones done. Raises as `commit`.
        """
        part: list[Operation] = []
        size = 0
        for operation in operations:
            added = _size(operation)
            if part and (len(part) == self.most_operations or size + added > self.most_bytes):
                await self.commit(part)
                part, size = [], 0
            part.append(operation)
            size += added
        if part:
            await self.commit(part)

    async def until_current(self, change: Callable[[], Awaitable[T]]) -> T:
        """Call `change` again while other sessions change its nodes first; return its result.

        The caller holds the turn.

        Raises:
            KafkaError: raised by `change`; KAFKA_STORAGE_ERROR; or REQUEST_TIMED_OUT after too many attempts,
                and the client tries again.
        """
        for _ in range(ATTEMPTS):
            try:
                return await change()
            except NodeError as error:
                logger.info("others have changed %s: it is read again", error.path)
            except MetadataStoreError as error:
                raise _storage_error("read", error) from error
            try:
                await self.catch_up()
            except MetadataStoreError as error:
                raise _storage_error("read", error) from error
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Other sessions keep changing the same metadata.")

    async def catch_up(self) -> None:
        """Read and publish the changes by others.

        The caller holds the turn.

        Raises:
            MetadataStoreError: the store failed; the rest is read the next time.
        """
        async for image in self._changes.read(self.image):
            old = self.image
            if image is old:
                continue
            names = image.changed_topics(old)
            if any(name in image.topics for name in names):
                await self._cache.prepare(image)
            self._cache.publish(image)
            if any(name in old.topics and old.topics[name].id not in image.topics_by_id for name in names):
                await self._cache.settle()

    async def catch_up_with(self, paths: Sequence[str]) -> None:
        """Read and publish the changes by others, and these nodes."""
        self._changes.add(paths)
        await self.catch_up()

    async def read_anew(self, image: MetadataImage) -> MetadataImage:
        """`image`, which is not published yet, with the changes by others.

        Raises:
            MetadataStoreError: the store failed.
        """
        async for newer in self._changes.read(image):
            image = newer
        return image

    async def publish_new(self, image: MetadataImage) -> None:
        """Publish an image with new partitions, whose logs take time to create.

        The caller holds the turn.
        """
        await self._cache.prepare(image)
        self._cache.publish(image)

    async def publish_deletion(self, image: MetadataImage) -> None:
        """Publish an image without some partitions, whose logs take time to delete.

        The caller holds the turn.
        """
        self._cache.publish(image)
        await self._cache.settle()

    def publish(self, image: MetadataImage) -> None:
        self._cache.publish(image)


def _size(operation: Operation) -> int:
    data = operation.data if isinstance(operation, Create | SetData) else b""
    return len(operation.path) + len(data) + OPERATION_BYTES


def _storage_error(what: str, error: MetadataStoreError) -> KafkaError:
    # A NodeError says only which node; the other errors are sentences.
    why = f"{type(error).__name__}: {error}" if isinstance(error, NodeError) else str(error)
    logger.error("The metadata cannot be %s: %s", what, why)
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The metadata cannot be {what}: {error}")
