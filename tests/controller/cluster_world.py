"""A cluster of one broker without its logs: the tree, the image, the administration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from kafkapy.configs.config import BrokerConfig
from kafkapy.controller.admin import ClusterAdmin
from kafkapy.metadata.cache import MetadataCache, open_cluster
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.image import MetadataImage
from kafkapy.metadata.store import MetadataStore
from kafkapy.metadata.tree_changes import TreeChanges
from kafkapy.metadata.znodes import Endpoint
from kafkapy.security.acls.loading import load_authorizer
from tests.loop.turned_clock import TurnedClock
from tests.metadata.intercepted_store import InterceptedStore

NODE_ID = 1


class Cluster:
    """One broker that has joined."""

    def __init__(self, path: Path, settings: dict[str, str], node_id: int = NODE_ID) -> None:
        self.path = path
        self.node_id = node_id
        self.config = BrokerConfig(settings)
        self.cache = MetadataCache()
        self.clock = TurnedClock()
        self.published: list[tuple[MetadataImage, MetadataImage]] = []
        self._news = asyncio.Event()

    @property
    def image(self) -> MetadataImage:
        return self.cache.image

    async def open_store(self) -> MetadataStore:
        return await EmbeddedStore.open(self.path / "metadata.db", sync=False)

    async def start(self) -> Cluster:
        self.store = InterceptedStore(await self.open_store())
        self.changes = changes = TreeChanges(self.store)
        await changes.watch()
        image = await self.read_image()
        self.cache.follow(self._heard)
        self.admin = ClusterAdmin(
            self.store,
            self.cache,
            self.config,
            changes,
            node_id=self.node_id,
            clock=self.clock,
            authorizer=load_authorizer(self.config.originals),
        )
        await self.admin.start(image, [Endpoint("PLAINTEXT", "localhost", 9091 + self.node_id, "PLAINTEXT")])
        return self

    async def read_image(self) -> MetadataImage:
        """The first read of the tree."""
        return await open_cluster(self.store, shared=self.config.clustered)

    def _heard(self, old: MetadataImage, new: MetadataImage) -> None:
        self.published.append((old, new))
        self._news.set()

    async def until(self, holds: Callable[[MetadataImage], bool]) -> None:
        """Wait for an image of which this is true."""
        async with asyncio.timeout(60):
            while not holds(self.image):
                self._news.clear()
                await self._news.wait()

    async def stop(self) -> None:
        await self.admin.stop()
        await self.store.close()


StartCluster = Callable[..., Awaitable[Cluster]]


@pytest.fixture
async def start_cluster(tmp_path: Path) -> AsyncIterator[StartCluster]:
    """Starts the broker; called again, starts it anew on the same tree."""
    clusters: list[Cluster] = []

    async def start(**settings: str) -> Cluster:
        for cluster in clusters:
            await cluster.stop()
        settings = {name.replace("_", "."): value for name, value in settings.items()}
        clusters.append(await Cluster(tmp_path, settings).start())
        return clusters[-1]

    yield start
    for cluster in clusters:
        await cluster.stop()


@pytest.fixture
async def cluster(start_cluster: StartCluster) -> Cluster:
    return await start_cluster()


StartBroker = Callable[..., Awaitable[Cluster]]


@pytest.fixture
async def start_broker(tmp_path: Path) -> AsyncIterator[StartBroker]:
    """Starts brokers of one cluster, each with a session of its own."""
    brokers: list[Cluster] = []

    async def start(node_id: int, **settings: str) -> Cluster:
        settings = {name.replace("_", "."): value for name, value in settings.items()}
        brokers.append(await Cluster(tmp_path, settings, node_id).start())
        return brokers[-1]

    yield start
    for broker in brokers:
        await broker.stop()


@pytest.fixture
async def hand(tmp_path: Path) -> AsyncIterator[EmbeddedStore]:
    """A session of somebody who writes the tree by hand."""
    store = await EmbeddedStore.open(tmp_path / "metadata.db", sync=False)
    yield store
    await store.close()
