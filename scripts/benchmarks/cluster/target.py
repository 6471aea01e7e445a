"""Three brokers of one kind on a ZooKeeper of their own, and what each of them shows."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from confluent_kafka import ElectionType
from confluent_kafka.admin import NewTopic

from interop.support.waiting import wait_until
from interop.support.zookeeper_client import looking_at
from interop.support.zookeeper_process import ZooKeeperProcess
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponsePartition
from scripts.benchmarks.load import Target
from scripts.benchmarks.servers import new_cluster
from scripts.benchmarks.wire import exchange
from tests.servers.server_process import ServerProcess

TICK_MS = 1000
"""Of ZooKeeper: sessions of four seconds are allowed, and end a tick late at most."""

_METADATA_VERSION = 7
_OF_NO_TOPIC = MetadataRequest(topics=[])
_OF_ALL_TOPICS = MetadataRequest(topics=None)
_SPREAD = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]


class ClusterTarget(Target):
    """Three running brokers by the name of their column, with the ids 1, 2 and 3."""

    def __init__(self, name: str, folder: Path, zookeeper: ZooKeeperProcess) -> None:
        self.zookeeper = zookeeper
        self._cluster = new_cluster(name, folder, zookeeper)
        super().__init__(*self._cluster)

    def start(self) -> float:
        """Start all at once; the seconds until each of them shows all, and a controller."""
        begun = time.perf_counter()
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda server: server.start(timeout=120), self.servers))
        wait_until(self._is_up, timeout=120, pause=0.01, ignoring=OSError)
        return time.perf_counter() - begun

    def _is_up(self) -> bool:
        shown = [_metadata(server, _OF_NO_TOPIC) for server in self.servers]
        return all(each.controller_id > 0 and len(each.brokers) == len(self.servers) for each in shown)

    def kill(self) -> None:
        """End all of them."""
        for server in self.servers:
            server.kill()

    def broker(self, number: int) -> ServerProcess:
        return self._cluster[number]

    def without(self, number: int) -> list[ServerProcess]:
        """The other brokers."""
        return [server for server in self.servers if server is not self._cluster[number]]

    def controller(self) -> int:
        """The id of the controller; every running broker names it."""
        running = [server for server in self.servers if server.running]

        def the_one() -> int:
            named = {controller_of(server) for server in running}
            return named.pop() if len(named) == 1 else 0

        return wait_until(lambda: max(the_one(), 0), timeout=120, ignoring=OSError)

    def another(self) -> int:
        """The id of a broker that is not the controller."""
        return self.controller() % len(self.servers) + 1

    def new_topic(self, partitions: int, config: Mapping[str, str] | None = None) -> str:
        topic = super().new_topic(partitions, config)
        self.wait_until_in_sync()
        return topic

    def new_spread_topic(self, name: str, partitions: int) -> None:
        """Create a topic whose partitions the brokers lead in turn."""
        replicas = [_SPREAD[index % len(_SPREAD)] for index in range(partitions)]
        self.admin.create_topics([NewTopic(name, partitions, replica_assignment=replicas)])[name].result(30)
        self.wait_until_in_sync()

    def wait_until_in_sync(self) -> None:
        """Wait until every broker shows all replicas of all partitions in sync."""

        def are_in_sync() -> bool:
            return all(
                each.leader_id > 0 and len(each.isr_nodes) == len(each.replica_nodes)
                for each in shown_by(self.servers)
            )

        wait_until(are_in_sync, timeout=600, pause=0.1, ignoring=OSError)

    @contextmanager
    def session_of(self, number: int) -> Iterator[Future[float]]:
        """When ZooKeeper ends the session of a broker, by the performance counter."""
        ended: Future[float] = Future()
        with looking_at(self.zookeeper.bootstrap_servers) as client:
            client.exists(f"/brokers/ids/{number}", lambda _: ended.set_result(time.perf_counter()))
            yield ended

    def wait_until_gone(self, number: int) -> None:
        """Wait until a broker is not registered: Apache Kafka does not start before."""

        def is_gone() -> bool:
            shown = [_metadata(server, _OF_NO_TOPIC) for server in self.without(number)]
            return all(broker.node_id != number for each in shown for broker in each.brokers)

        wait_until(is_gone, timeout=120, ignoring=OSError)

    def restore(self, number: int) -> None:
        """Start a broker that was stopped, and let it lead again what it led."""
        self.wait_until_gone(number)
        self.broker(number).start(timeout=300)
        self.wait_until_in_sync()

        def elect() -> bool:
            """A client that does not know the new controller yet is refused."""
            self.admin.elect_leaders(ElectionType.PREFERRED, None).result(300)
            return all(each.leader_id == each.replica_nodes[0] for each in shown_by(self.servers))

        wait_until(elect, timeout=300, pause=1)


def controller_of(server: ServerProcess) -> int:
    """The controller that a broker names."""
    return int(_metadata(server, _OF_NO_TOPIC).controller_id)


def partitions_of(server: ServerProcess) -> Mapping[str, list[MetadataResponsePartition]]:
    """What a broker shows of each topic."""
    return {str(topic.name): topic.partitions for topic in _metadata(server, _OF_ALL_TOPICS).topics}


def shown_by(servers: Iterable[ServerProcess]) -> Iterator[MetadataResponsePartition]:
    """Every partition as each of these brokers shows it."""
    for server in servers:
        for partitions in partitions_of(server).values():
            yield from partitions


def _metadata(server: ServerProcess, request: MetadataRequest) -> MetadataResponse:
    """The answer of this broker: a client library may ask another one."""
    with socket.create_connection(server.address, timeout=60) as connection:
        return cast("MetadataResponse", exchange(connection, request, _METADATA_VERSION))


@contextmanager
def on_a_zookeeper(name: str, folder: Path) -> Iterator[ClusterTarget]:
    """Three brokers that do not run yet; their ZooKeeper does."""
    with ZooKeeperProcess(folder / "zookeeper", tick_ms=TICK_MS) as zookeeper:
        target = ClusterTarget(name, folder, zookeeper)
        try:
            yield target
        finally:
            target.kill()


@contextmanager
def running_cluster(name: str, folder: Path) -> Iterator[ClusterTarget]:
    """Three brokers that run."""
    with on_a_zookeeper(name, folder) as target:
        target.start()
        yield target
