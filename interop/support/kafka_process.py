"""Apache Kafka as a process: one KRaft node, broker and controller, in a folder of its own.

    with KafkaProcess(tmp_path) as kafka:
        Producer({"bootstrap.servers": kafka.bootstrap_servers})

Storage is formatted on the first start (kafka.tools.StorageTool). `start()` returns when the broker lists
itself in its own Metadata. The JVM's flags are for short runs, and its classes come from an archive that the
first start of a release makes; benchmarks use PERFORMANCE_FLAGS. If the same object is stopped and started
again, it keeps the data and the address.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Self

from interop.support.kafka_jars import RELEASE, TOOL_FLAGS, class_archive, java_command, shared_classes
from tests.ports import free_ports
from tests.servers.probe import wait_until_it_answers
from tests.servers.server_process import ServerProcess, ServerStartError

# kafka-run-class.sh: KAFKA_JVM_PERFORMANCE_OPTS
PERFORMANCE_FLAGS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)

# config/server.properties of the release, without its paths and thread counts, for one node.
_DEFAULTS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


class KafkaProcess(ServerProcess):
    """Make an Apache Kafka in `folder`; `properties` replace its default settings."""

    name = "Apache Kafka"

    def __init__(
        self,
        folder: Path,
        *,
        properties: Mapping[str, str] | None = None,
        release: str = RELEASE,
        heap: str = "1g",
        jvm_flags: tuple[str, ...] | None = None,
    ) -> None:
        self.folder, self.version, self.heap, self.jvm_flags = folder, release, heap, jvm_flags
        self.data = folder / "data"
        self.log_path = folder / "server.out"
        self._properties_path = folder / "server.properties"
        port, controller_port = free_ports(2)
        self.bootstrap_servers = f"127.0.0.1:{port}"
        self.properties = {
            **_DEFAULTS,
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "log.dirs": str(self.data),
            **(properties or {}),
        }
        if release.startswith("3."):
            self.properties.pop("share.coordinator.state.topic.replication.factor", None)
            self.properties.pop("share.coordinator.state.topic.min.isr", None)

    def start(self, timeout: float = 60.0) -> Self:
        """Format on the first start, run, and wait for the first answer; raises ServerStartError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._properties_path.write_text("".join(f"{k}={v}\n" for k, v in self.properties.items()))
        if not (self.data / "meta.properties").exists():
            self._format()
        flags = self.jvm_flags
        if flags is None:
            archive_classes(self.version)
            flags = (*TOOL_FLAGS, *shared_classes(self.version))
        command = java_command(self.version, *flags, f"-Xmx{self.heap}", f"-Xms{self.heap}")
        with self.log_path.open("ab") as output:
            self.process = subprocess.Popen(
                [*command, "kafka.Kafka", str(self._properties_path)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + timeout
        if not wait_until_it_answers(self.address, deadline=deadline, still_running=lambda: self.running):
            self.kill()
            raise ServerStartError(self.output())
        return self

    def _format(self) -> None:
        arguments = [
            "format",
            "--config",
            str(self._properties_path),
            "--cluster-id",
            "a2Fma2FweS1pbnRlcm9wMQ",
        ]
        command = [*java_command(self.version), "kafka.tools.StorageTool", *arguments]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode:
            raise ServerStartError(run.stdout + run.stderr)


@cache
def archive_classes(release: str = RELEASE) -> None:
    """Make the archive of the classes that a broker uses, if it does not exist.

    A process tries it once.
    """

    def run(folder: Path, flags: tuple[str, ...]) -> None:
        flags = (*TOOL_FLAGS, *flags)
        broker = KafkaProcess(folder / "broker", release=release, heap="512m", jvm_flags=flags)
        broker.start(timeout=180).stop(timeout=60)

    class_archive(release).make(run)
