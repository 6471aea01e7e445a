"""The ZooKeeper of the run, where each test has a tree of its own below a chroot."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from interop.support.zookeeper_client import looking_at
from interop.support.zookeeper_process import ZooKeeperProcess
from kafkapy.configs.config import BrokerConfig
from kafkapy.metadata.store import MetadataStore
from kafkapy.metadata.zookeeper import ZooKeeperStore
from tests.controller.cluster_world import Cluster
from tests.metadata.test_metadata_store import OpenSession, open_session, store

SESSION_SECONDS = 4.0

__all__ = ["connect_store", "open_session", "store"]

_NUMBERS = itertools.count()


@pytest.fixture
def hand(zookeeper: ZooKeeperProcess) -> Iterator[KazooClient]:
    """Somebody who writes an empty tree by hand."""
    with looking_at(zookeeper.bootstrap_servers) as client:
        chroot = f"/tree/{next(_NUMBERS)}"
        client.ensure_path(chroot)
        client.chroot = chroot
        yield client


@pytest.fixture
def connect(zookeeper: ZooKeeperProcess, hand: KazooClient) -> str:
    """The zookeeper.connect of that tree."""
    return f"{zookeeper.bootstrap_servers}{hand.chroot}"


class ZooKeeperCluster(Cluster):
    """A broker of a cluster, without its logs, whose metadata is in ZooKeeper."""

    def __init__(self, connect: str, node_id: int) -> None:
        super().__init__(Path(), {}, node_id)
        settings = {"zookeeper.session.timeout.ms": "4000", "broker.rack": f"r{node_id}"}
        self.config = BrokerConfig(settings, clustered=True)
        self._connect = connect

    async def open_store(self) -> MetadataStore:
        return await ZooKeeperStore.open(
            self._connect, session_timeout=SESSION_SECONDS, connection_timeout=20
        )


StartBroker = Callable[..., Awaitable[ZooKeeperCluster]]


@pytest.fixture
async def start_broker(connect: str) -> AsyncIterator[StartBroker]:
    """Starts brokers of one cluster."""
    brokers: list[ZooKeeperCluster] = []

    async def start(node_id: int = 1) -> ZooKeeperCluster:
        broker = ZooKeeperCluster(connect, node_id)
        brokers.append(broker)
        await broker.start()
        return broker

    yield start
    for broker in brokers:
        await broker.stop()


@pytest.fixture
def connect_store(connect: str) -> OpenSession:
    """Opens a session with ZooKeeper."""
    return lambda: ZooKeeperStore.open(connect, session_timeout=SESSION_SECONDS, connection_timeout=20)
