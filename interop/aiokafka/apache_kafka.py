"""A program: Apache Kafka with the server.properties of a container of kafkapy."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path

from interop.support.kafka_jars import TOOL_FLAGS
from interop.support.kafka_process import KafkaProcess
from tests.ports import free_ports


def serve(path: Path) -> None:
    """Run a broker with these properties until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    lines = dict(line.split("=", 1) for line in path.read_text().splitlines())
    controller = f"127.0.0.1:{free_ports(1)[0]}"
    names = [listener.partition(":")[0] for listener in lines["listeners"].split(",")]
    lines |= {
        "listeners": f"{lines['listeners']},CONTROLLER://{controller}",
        "listener.security.protocol.map": ",".join(f"{each}:{each}" for each in names)
        + ",CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"{lines['node.id']}@{controller}",
    }
    flags = [f"-Djava.security.krb5.conf={found}" for found in [os.environ.get("KRB5_CONFIG")] if found]
    with tempfile.TemporaryDirectory() as folder:
        kafka = KafkaProcess(Path(folder), properties=lines, jvm_flags=(*TOOL_FLAGS, *flags))
        kafka.data = Path(lines["log.dirs"])
        kafka.bootstrap_servers = lines["advertised.listeners"].split(",")[0].partition("://")[2]
        with kafka:
            kafka.process.wait()
            print(kafka.output())


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
