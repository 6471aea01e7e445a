"""ZooKeeper as a process, and Apache Kafka 3.9.1, the last release with ZooKeeper mode.

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

from interop.support.host import LOCAL, Host
from interop.support.kafka_jars import TOOL_FLAGS, java_command, shared_classes
from interop.support.kafka_process import KafkaProcess
from interop.support.waiting import wait_until
from tests.ports import free_ports
from tests.servers.server_process import ServerProcess, ServerStartError

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
    """A ZooKeeper in `folder`, alone or one of an ensemble (zookeeper_ensemble.py)."""

    name = "ZooKeeper"
    version = "3.8.4"

    def __init__(
        self,
        folder: Path,
        release: str = RELEASE,
        *,
        tick_ms: int = 3000,
        host: Host = LOCAL,
        more: str = "",
        jvm_flags: tuple[str, ...] = (),
    ) -> None:
        """Prepare the ZooKeeper that comes with the release `release` of Kafka.

        `more` are further settings. A session's timeout is at least two ticks.
        """
        self._release, self._tick_ms = release, tick_ms
        self._host, self._more, self._jvm_flags = host, more, jvm_flags
        self.folder = folder
        self.log_path = folder / "server.out"
        self.bootstrap_servers = f"{host.address}:{free_ports(1)[0]}"

    def start(self, timeout: float = 30.0) -> Self:
        """Run, and wait until it answers; raises ServerStartError."""
        self.launch()
        wait_until(lambda: self.mode() or not self.running, timeout=timeout)
        if not self.running:
            raise ServerStartError(self.output())
        return self

    def launch(self) -> None:
        """Run, and wait for nothing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        host, port = self.address
        settings = self.folder / "zookeeper.properties"
        settings.write_text(
            f"dataDir={self.folder / 'data'}\nclientPort={port}\nclientPortAddress={host}\n"
            f"tickTime={self._tick_ms}\n"
            f"admin.enableServer=false\n4lw.commands.whitelist=srvr\n{self._more}"
        )
        with self.log_path.open("ab") as output:
            self.process = subprocess.Popen(
                [
                    *self._host.enter,
                    *java_command(
                        self._release,
                        *TOOL_FLAGS,
                        *shared_classes(self._release),
                        "-Xmx256m",
                        *self._jvm_flags,
                    ),
                    _MAIN,
                    str(settings),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def mode(self) -> str:
        """standalone, leader or follower; nothing while it serves nobody."""
        return self._shows("Mode")

    def connections(self) -> int:
        """How many clients are connected."""
        return int(self._shows("Connections") or 1) - 1  # without the one that asks

    def _shows(self, what: str) -> str:
        try:
            with socket.create_connection(self.address, timeout=1) as connection:
                connection.sendall(b"srvr")
                # A server that is starting says so, and may leave sessions unanswered.
                answer = connection.makefile("rb").read().decode()
        except OSError:
            return ""
        return answer.partition(f"{what}: ")[2].partition("\n")[0]


class ZooKeeperKafkaProcess(KafkaProcess):
    """Apache Kafka 3.9.1, with its metadata in a ZooKeeper (HOST:PORT[/chroot])."""

    def __init__(
        self,
        folder: Path,
        zookeeper: str,
        *,
        properties: Mapping[str, str] | None = None,
        heap: str = "512m",
        jvm_flags: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(folder, properties=properties, release=RELEASE, heap=heap, jvm_flags=jvm_flags)
        for name in _KRAFT_ONLY:
            self.properties.pop(name)
        listener = f"PLAINTEXT://{self.bootstrap_servers}"
        self.properties |= {"broker.id": "1", "listeners": listener, "zookeeper.connect": zookeeper}
        self.properties |= properties or {}

    def _format(self) -> None:
        """There is nothing to format."""
