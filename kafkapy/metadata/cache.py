"""The broker's copy of the metadata: the image in force and its followers.

Whoever changes the tree publishes the image with that change before answering the request that asked for it.
Every follower has then acted on it: a created topic has its logs. What other sessions change is read anew
(`kafkapy.metadata.tree_changes`) and published in the same way.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable

from kafkapy.metadata import znodes
from kafkapy.metadata.image import MetadataImage, read_image
from kafkapy.metadata.store import Create, MetadataStore, NodeExistsError
from kafkapy.protocol.types import random_uuid, uuid_to_text

logger = logging.getLogger(__name__)

Follower = Callable[[MetadataImage, MetadataImage], None]
Preparer = Callable[[MetadataImage, MetadataImage], Awaitable[None]]
Settler = Callable[[], Awaitable[None]]


class MetadataCache:
    """Holds the image. A reader may keep `image`: it never changes."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self._followers: list[Follower] = []
        self._preparers: list[Preparer] = []
        self._settlers: list[Settler] = []

    def follow(self, follower: Follower) -> None:
        """Have `follower(old, new)` called with every published image, in order of registration."""
        self._followers.append(follower)

    def prepare_with(self, preparer: Preparer) -> None:
        """Have `preparer(old, new)` awaited before an image with new partitions is published.

        It may do piece by piece what a follower would do at once.
        """
        self._preparers.append(preparer)

    def settle_with(self, settler: Settler) -> None:
        """Have `settler()` awaited after a deletion.

        It may do piece by piece what a follower put off.
        """
        self._settlers.append(settler)

    async def settle(self) -> None:
        """Do what followers put off."""
        for settler in self._settlers:
            try:
                await settler()
            except Exception:
                logger.exception("a change of the metadata could not be settled")

    async def prepare(self, image: MetadataImage) -> None:
        """Do what takes long before `image` is published."""
        for preparer in self._preparers:
            try:
                await preparer(self.image, image)
            except Exception:
                # The followers do then what was to be prepared.
                logger.exception("a change of the metadata could not be prepared")

    def publish(self, image: MetadataImage) -> None:
        """Put `image` in force and tell the followers."""
        old, self.image = self.image, image
        for follower in self._followers:
            try:
                follower(old, image)
            except Exception:
                # The change is committed: neither the other followers nor its answer may be left out.
                logger.exception("a change of the metadata could not be acted on")
        self.image = image.without_history()


async def open_cluster(store: MetadataStore, cluster_id: str | None = None) -> MetadataImage:
    """Read the tree, once it has a cluster id and the paths that it should have.

    `cluster_id` is the id to give a new cluster, where its data directories know one; else a random one.

    Raises:
        MetadataStoreError: the store failed, or a node does not hold what it should.
    """
    if await store.exists(znodes.CLUSTER_ID) is None:
        new_id = cluster_id or uuid_to_text(random_uuid())
        with contextlib.suppress(NodeExistsError):  # another broker was first
            await store.multi(
                [
                    *(Create(path) for path in znodes.PERSISTENT_PATHS),
                    Create(znodes.CONTROLLER_EPOCH, b"0"),
                    Create(znodes.CLUSTER_ID, znodes.encode_cluster_id(new_id)),
                ]
            )
    tree = await store.subtree("/")
    # Of a tree that an earlier release has made.
    if missing := [path for path in znodes.PERSISTENT_PATHS if path not in tree]:
        with contextlib.suppress(NodeExistsError):  # another broker was first
            await store.multi([Create(path) for path in missing])
    return read_image(tree)
