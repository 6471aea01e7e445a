"""ZooKeeper as a process, and Apache Kafka in ZooKeeper mode, from the jars of the last release that has it.

    with ZooKeeperProcess(tmp_path / "zookeeper") as zookeeper:
        with ZooKeeperKafkaProcess(tmp_path / "kafka", zookeeper.bootstrap_servers) as kafka:
            Producer({"bootstrap.servers": kafka.bootstrap_servers})

A broker that was killed stays registered until its session is over.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from interop.support.kafka_jars import java_command
from interop.support.kafka_process import KafkaProcess
from interop.support.server_process import ServerProcess, ServerStartError
from interop.support.waiting import wait_until
from tests.ports import free_ports

RELEASE = "3.9.1"

_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_KRAFT_ONLY = (
    "process.roles",
    "node.id",
    "controller.listener.names",
    "controller.quorum.voters",
    "listener.security.protocol.map",
)


class ZooKeeperProcess(ServerProcess):
    """A ZooKeeper of its own in `folder`."""

    name = "ZooKeeper"
    version = "3.8.4"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log_path = folder / "server.out"
        self.bootstrap_servers = f"127.0.0.1:{free_ports(1)[0]}"

    def start(self, timeout: float = 30.0) -> Self:
        """Run, and wait until it answers; raises ServerStartError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        host, port = self.address
        settings = self.folder / "zookeeper.properties"
        settings.write_text(
            f"dataDir={self.folder / 'data'}\nclientPort={port}\nclientPortAddress={host}\n"
            "admin.enableServer=false\n4lw.commands.whitelist=ruok\n"
        )
        with self.log_path.open("ab") as output:
            self.process = subprocess.Popen(
                [*java_command(RELEASE, "-Xmx256m"), _MAIN, str(settings)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        wait_until(lambda: self._answers() or not self.running, timeout=timeout, ignoring=OSError)
        if not self.running:
            raise ServerStartError(self.output())
        return self

    def _answers(self) -> bool:
        with socket.create_connection(self.address, timeout=1) as connection:
            connection.sendall(b"ruok")
            return connection.recv(4) == b"imok"


class ZooKeeperKafkaProcess(KafkaProcess):
    """Apache Kafka 3.9.1 with its metadata in the ZooKeeper at `zookeeper` (HOST:PORT[/chroot])."""

    def __init__(
        self,
        folder: Path,
        zookeeper: str,
        *,
        properties: Mapping[str, str] | None = None,
        heap: str = "512m",
    ) -> None:
        super().__init__(folder, properties=properties, release=RELEASE, heap=heap)
        for name in _KRAFT_ONLY:
            self.properties.pop(name)
        listener = f"PLAINTEXT://{self.bootstrap_servers}"
        self.properties |= {"broker.id": "1", "listeners": listener, "zookeeper.connect": zookeeper}
        self.properties |= properties or {}

    def _format(self) -> None:
        """There is nothing to format."""
