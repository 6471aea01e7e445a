"""Clusters on the ZooKeeper of the run, each with a tree of its own below a chroot."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from interop.support.cluster_processes import ClusterProcesses, MakeBroker, kafkapy_broker
from interop.support.zookeeper_process import ZooKeeperProcess

StartCluster = Callable[..., ClusterProcesses]

_NUMBERS = itertools.count()


@pytest.fixture
def start_cluster(zookeeper: ZooKeeperProcess, tmp_path: Path) -> Iterator[StartCluster]:
    """Starts a cluster with these properties, of brokers that `make` makes."""
    with ExitStack() as started:

        def start(
            brokers: int = 3, *, make: MakeBroker = kafkapy_broker, **properties: str
        ) -> ClusterProcesses:
            named = {name.replace("_", "."): value for name, value in properties.items()}
            chroot = f"/cluster/{next(_NUMBERS)}"
            cluster = ClusterProcesses(
                tmp_path, zookeeper, brokers=brokers, chroot=chroot, properties=named, make=make
            )
            return started.enter_context(cluster)

        yield start
