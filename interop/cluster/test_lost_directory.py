"""The disk of a leader's second log directory fails.

Others lead what was there, and the broker lives on.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from interop.cluster.conftest import StartCluster
from interop.support.cluster_processes import ClusterProcesses
from interop.support.waiting import wait_until
from interop.support.zookeeper_client import looking_at
from tests.crash.load import RecordingProducer, read_pass
from tests.crash.loop_disk import LoopDisk, why_not
from tests.promises.checker import check
from tests.promises.history import Acked, History
from tests.servers.kafkapy_process import KafkapyProcess
from tests.servers.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not() or "")]

PARTITIONS = 4
NOTICES = "/log_dir_event_notification"
BROKER = "1"
"""The broker with two directories: it leads all partitions of the topic."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    with LoopDisk(tmp_path / "disk", megabytes=64) as disk:
        yield disk


@pytest.fixture
def cluster(disk: LoopDisk, start_cluster: StartCluster) -> ClusterProcesses:
    """Three brokers; the first one's second directory is on the disk."""

    def make(folder: Path, properties: Mapping[str, str]) -> ServerProcess:
        broker = KafkapyProcess(folder, properties=properties)
        if properties["broker.id"] == BROKER:
            broker.data = Path(f"{folder / 'whole'},{disk.path / 'data'}")
        return broker

    cluster = start_cluster(3, make=make, auto_leader_rebalance_enable="false")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    replicas = [[1, 2, 3]] * PARTITIONS
    admin.create_topics([NewTopic("t", PARTITIONS, replica_assignment=replicas)])["t"].result()
    cluster.wait_until_in_sync("t")
    return cluster


@pytest.fixture
def tree(cluster: ClusterProcesses) -> Iterator[KazooClient]:
    """The cluster's nodes in ZooKeeper."""
    broker = cluster[1]
    assert isinstance(broker, KafkapyProcess)
    with looking_at(broker.properties["zookeeper.connect"]) as client:
        yield client


class Load:
    """Writes to all partitions in turn, and notes what is acknowledged."""

    def __init__(self, cluster: ClusterProcesses) -> None:
        self.history = History()
        self._producer = RecordingProducer("p", cluster.bootstrap_servers, self.history, idempotent=True)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        for number in itertools.count():
            if self._stop.is_set():
                break
            self._producer.send(("t", number % PARTITIONS), b"%d" % number)
            self._producer.poll()
            time.sleep(0.002)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush()

    def wait_for_more(self) -> None:
        """Wait until each partition has more acknowledged records."""
        before = len(self.history)
        wait_until(lambda: self._acknowledged_since(before) == set(range(PARTITIONS)), timeout=60)

    def _acknowledged_since(self, event: int) -> set[int]:
        """The partitions of acknowledged records.

        The producer numbers them from 0, as `_run` does.
        """
        events = list(self.history)[event:]
        return {each.number % PARTITIONS for each in events if isinstance(each, Acked)}


def led_by_it(cluster: ClusterProcesses) -> set[int] | None:
    """The partitions that the broker with two directories leads; None if one has no leader."""
    leaders = {index: each.leader for index, each in cluster.topic("t").partitions.items()}
    return None if -1 in leaders.values() else {index for index, leader in leaders.items() if leader == 1}


def test_others_lead_what_was_in_a_lost_directory(
    cluster: ClusterProcesses, disk: LoopDisk, tree: KazooClient
) -> None:
    lost = {int(path.name.rpartition("-")[2]) for path in (disk.path / "data").glob("t-*")}
    assert 0 < len(lost) < PARTITIONS
    changes = tree.get(NOTICES)[1].cversion
    with Load(cluster) as load:
        load.wait_for_more()
        disk.cut_power()
        wait_until(lambda: led_by_it(cluster) == set(range(PARTITIONS)) - lost, timeout=60)
        load.wait_for_more()
    wait_until(lambda: tree.get(NOTICES)[1].cversion >= changes + 2 and not tree.get_children(NOTICES))
    assert cluster[1].running
    in_sync = {index: sorted(each.isrs) for index, each in cluster.topic("t").partitions.items()}
    assert in_sync == {index: [2, 3] if index in lost else [1, 2, 3] for index in range(PARTITIONS)}
    partitions = [("t", index) for index in range(PARTITIONS)]
    read_pass(cluster.bootstrap_servers, "last", dict.fromkeys(partitions, 0), load.history)
    assert check(load.history) == []
