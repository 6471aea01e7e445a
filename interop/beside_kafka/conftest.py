"""Clusters of Apache Kafka and kafkapy, on the ZooKeeper of the run.

The tests of a file share a cluster, and leave all its brokers running.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import pytest

from interop.beside_kafka.mixed_cluster import MixedCluster
from interop.support.zookeeper_process import ZooKeeperProcess

StartMixed = Callable[..., MixedCluster]

_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def start_mixed(
    zookeeper: ZooKeeperProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StartMixed]:
    """Starts a cluster of brokers of these kinds."""
    with ExitStack() as started:

        def start(kinds: Mapping[int, str], **properties: str) -> MixedCluster:
            named = {name.replace("_", "."): value for name, value in properties.items()}
            folder, chroot = tmp_path_factory.mktemp("mixed"), f"/mixed/{next(_NUMBERS)}"
            return started.enter_context(MixedCluster(folder, zookeeper, chroot, kinds, named))

        yield start


@pytest.fixture
def cluster(shared_cluster: MixedCluster) -> MixedCluster:
    """The file's cluster, with all brokers running."""
    shared_cluster.start_all()
    return shared_cluster
