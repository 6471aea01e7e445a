"""Three brokers of this checkout and their ZooKeeper, used as one server.

    with ClusterServer(tmp_path) as server:
        Producer({"bootstrap.servers": server.bootstrap_servers})

`stop` and `kill` end all brokers; ZooKeeper continues until the end of the `with` block.
"""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import Self

from interop.support.cluster_processes import ClusterProcesses
from interop.support.waiting import wait_until
from interop.support.zookeeper_process import ZooKeeperProcess
from tests.servers.probe import brokers_alive
from tests.servers.server_process import ServerProcess

BROKERS = 3


class ClusterServer(ServerProcess):
    """The cluster in `folder`: topics have three replicas unless their creator says otherwise."""

    name = "kafkapy"
    version = "this checkout"

    def __init__(self, folder: Path) -> None:
        self._zookeeper = ZooKeeperProcess(folder / "zookeeper")
        self.brokers = ClusterProcesses(folder, self._zookeeper, brokers=BROKERS)
        self.bootstrap_servers = self.brokers.bootstrap_servers

    def start(self, timeout: float = 60.0) -> Self:
        """Run, and wait until each broker knows all; raises ServerStartError."""
        deadline = time.monotonic() + timeout
        if not hasattr(self._zookeeper, "process"):
            self._zookeeper.start()
        for broker in self.brokers:
            broker.start()
        wait_until(
            lambda: all(brokers_alive(broker.address) == BROKERS for broker in self.brokers),
            timeout=deadline - time.monotonic(),
        )
        return self

    @property
    def running(self) -> bool:
        return all(broker.running for broker in self.brokers)

    def output(self, last: int = 40) -> str:
        return "\n\n".join(broker.output(last) for broker in self.brokers)

    def stop(self, timeout: float = 30.0) -> int:
        return max(broker.stop(timeout) for broker in self.brokers)

    def kill(self) -> int:
        return max(broker.kill() for broker in self.brokers)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._zookeeper.stop()
