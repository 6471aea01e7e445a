"""A cluster to which anything can happen.

Brokers, ZooKeepers, the network between them and the clocks can fail.

with Scene(tmp_path, zookeepers=3) as scene:
    scene.cluster[1].kill()
    scene.network.cut("broker2", "zookeeper1")
"""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from kazoo.client import KazooClient

from interop.support.cluster_processes import ClusterProcesses
from interop.support.host import LOCAL, Host
from interop.support.network_namespaces import NetworkNamespaces, why_not
from interop.support.wall_clock import WallClock
from interop.support.zookeeper_client import looking_at
from interop.support.zookeeper_ensemble import ZooKeeperEnsemble
from tests.servers.kafkapy_process import KafkapyProcess
from tests.servers.server_process import ServerProcess

BROKERS: Final = (1, 2, 3)

_SETTINGS: Final = {
    "zookeeper.connection.timeout.ms": "120000",  # a broker that starts waits for a ZooKeeper that is away
    "replica.lag.time.max.ms": "4000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "log.segment.bytes": "1048576",
}


class Scene:
    """Three brokers and some ZooKeepers.

    Each is on a host of its own where the machine allows that.
    """

    def __init__(
        self, folder: Path, *, zookeepers: int = 1, properties: Mapping[str, str] | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.zookeeper_names = [f"zookeeper{number}" for number in range(1, zookeepers + 1)]
        self.clocks = {number: WallClock(folder / f"clock-{number}") for number in BROKERS}
        self.network: NetworkNamespaces | None = None
        """None where namespaces cannot be made: `why_not` of network_namespaces says why."""
        self.zookeepers: ZooKeeperEnsemble
        self.cluster: ClusterProcesses
        self.brokers: dict[int, KafkapyProcess] = {}
        self._properties = {**_SETTINGS, **(properties or {})}
        self._opened = ExitStack()

    def servers(self) -> list[ServerProcess]:
        """The processes: brokers first."""
        return [*self.cluster, *self.zookeepers]

    def registered(self) -> list[int]:
        """The ids of the brokers that ZooKeeper has."""
        with self._tree() as tree:
            return sorted(int(each) for each in tree.get_children("/brokers/ids"))

    def is_registered(self) -> bool:
        """Whether ZooKeeper has all brokers, and a controller."""
        with self._tree() as tree:
            ids = tree.get_children("/brokers/ids")
            return len(ids) == len(BROKERS) and tree.exists("/controller") is not None

    def controller(self) -> int:
        """The id of the controller."""
        with self._tree() as tree:
            return int(json.loads(tree.get("/controller")[0])["brokerid"])

    def leaders(self) -> set[int]:
        """The ids of the brokers that lead a partition, by ZooKeeper; -1 if one has no leader."""
        with self._tree() as tree:
            return {
                int(json.loads(tree.get(f"/brokers/topics/{topic}/partitions/{index}/state")[0])["leader"])
                for topic in tree.get_children("/brokers/topics")
                for index in tree.get_children(f"/brokers/topics/{topic}/partitions")
            }

    def _tree(self) -> AbstractContextManager[KazooClient]:
        return looking_at(self.zookeepers.bootstrap_servers)

    def __enter__(self) -> Self:
        with self._opened:
            if not why_not():
                names = [broker_name(number) for number in BROKERS]
                self.network = self._opened.enter_context(NetworkNamespaces([*names, *self.zookeeper_names]))
            hosts = [self._host(name) for name in self.zookeeper_names]
            self.zookeepers = self._opened.enter_context(ZooKeeperEnsemble(self.folder, hosts))
            self.cluster = ClusterProcesses(
                self.folder, self.zookeepers, properties=self._properties, make=self._make
            )
            for broker in self.brokers.values():
                broker.start()
                self._opened.callback(broker.kill)
            self._opened.callback(self._wake_all)
            self._opened = self._opened.pop_all()
        return self

    def _make(self, folder: Path, properties: Mapping[str, str]) -> KafkapyProcess:
        number = int(properties["broker.id"])
        host = self._host(broker_name(number))
        self.brokers[number] = KafkapyProcess(
            folder,
            properties=properties,
            address=host.address,
            prefix=host.enter,
            program=self.clocks[number].program,
        )
        return self.brokers[number]

    def _host(self, name: str) -> Host:
        return LOCAL if self.network is None else self.network.host(name)

    def _wake_all(self) -> None:
        for server in self.servers():
            if server.running:
                server.process.send_signal(signal.SIGCONT)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()


def broker_name(number: int) -> str:
    """The name of a broker's host."""
    return f"broker{number}"
