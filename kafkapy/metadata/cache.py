"""The broker's copy of the metadata: the current image and its followers.

A change of the tree is published in a new image before its request is answered. By then every follower has
acted on it: a created topic has its logs. Changes by other sessions are read
(`kafkapy.metadata.tree_changes`) and published in the same way.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Final

from kafkapy.metadata import znodes
from kafkapy.metadata.image import MetadataImage, read_image, read_sound_image, read_tree
from kafkapy.metadata.store import (
    Create,
    MetadataStore,
    MetadataStoreError,
    NodeExistsError,
    NoNodeError,
    OutcomeUnknownError,
)
from kafkapy.protocol.types import random_uuid, uuid_to_text

_SECRET_BYTES: Final = 32

logger = logging.getLogger(__name__)

Follower = Callable[[MetadataImage, MetadataImage], None]
Preparer = Callable[[MetadataImage, MetadataImage], Awaitable[None]]
Settler = Callable[[], Awaitable[None]]


class MetadataCache:
    """Holds the current image.

    A reader may keep an image, which never changes.
    """

    def __init__(self) -> None:
        self.image = MetadataImage()
        self._followers: list[Follower] = []
        self._preparers: list[Preparer] = []
        self._settlers: list[Settler] = []

    def follow(self, follower: Follower) -> None:
        """Call `follower(old, new)` with every published image, in order of registration."""
        self._followers.append(follower)

    def prepare_with(self, preparer: Preparer) -> None:
        """Await `preparer(old, new)` before an image with new partitions is published.

        It may do in steps the work that a follower would do at once.
        """
        self._preparers.append(preparer)

    def settle_with(self, settler: Settler) -> None:
        """Await `settler()` after a deletion.

        It may do in steps the work that a follower has deferred.
        """
        self._settlers.append(settler)

    async def settle(self) -> None:
        """Do the work that followers have deferred."""
        for settler in self._settlers:
            try:
                await settler()
            except Exception:
                logger.exception("the deferred work of a change of the metadata failed")

    async def prepare(self, image: MetadataImage) -> None:
        """Do work that takes long before `image` is published."""
        for preparer in self._preparers:
            try:
                await preparer(self.image, image)
            except Exception:
                # The followers will do the work.
                logger.exception("a change of the metadata could not be prepared")

    def publish(self, image: MetadataImage) -> None:
        """Make `image` the current image and call the followers."""
        old, self.image = self.image, image
        for follower in self._followers:
            try:
                follower(old, image)
            except Exception:
                # The change is committed: the other followers must still be called, and the request answered.
                logger.exception("a change of the metadata could not be acted on")
        self.image = image.without_history()


async def open_cluster(
    store: MetadataStore, cluster_id: str | None = None, *, shared: bool = False
) -> MetadataImage:
    """Read the tree, after adding what is missing of the nodes that each cluster has.

    These are the standard paths, the id of the cluster and its secret.
    `cluster_id` is that of the broker's data directories; None if they are new. A new cluster gets it, or a
    random one. A tree that is `shared` with other processes is the cluster's, and the directories must fit.

    Raises:
        MetadataStoreError: the store failed; the data directories belong to another cluster, and nothing was
            written; or the content of a node is not valid, which in a shared tree is logged instead.
    """
    if shared and cluster_id is not None:
        await _require_cluster(store, cluster_id)
    new_id = znodes.encode_cluster_id(cluster_id or uuid_to_text(random_uuid()))
    paths = dict.fromkeys(znodes.PERSISTENT_PATHS, b"")
    paths |= {znodes.CONTROLLER_EPOCH: b"0", znodes.CLUSTER_ID: new_id}
    paths[znodes.SALT_SECRET] = os.urandom(_SECRET_BYTES).hex().encode()
    while missing := [Create(path, data) for path, data in paths.items() if await store.exists(path) is None]:
        # Another broker has created one of them; or the connection was lost, and the tree says what is there.
        with contextlib.suppress(NodeExistsError, OutcomeUnknownError):
            await store.multi(missing)
    tree = await read_tree(store)
    return read_sound_image(tree) if shared else read_image(tree)


async def _require_cluster(store: MetadataStore, cluster_id: str) -> None:
    """See that the tree is that of the cluster to which the data directories belong.

    Raises:
        MetadataStoreError: it is not.
    """
    try:
        found = znodes.decode_cluster_id((await store.get(znodes.CLUSTER_ID)).data)
    except NoNodeError:
        raise MetadataStoreError(
            f"The data directories belong to cluster {cluster_id}, and there is no cluster in ZooKeeper at"
            " zookeeper.connect. Correct its address or chroot, or choose another data directory."
        ) from None
    if found != cluster_id:
        raise MetadataStoreError(
            f"The data directories belong to cluster {cluster_id}, and zookeeper.connect names cluster"
            f" {found}. Correct its address or chroot, or choose another data directory."
        )
