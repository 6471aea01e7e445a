"""`kafkapy serve --container` with the variables of a container, and its health check."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkapy.protocol.messages.metadata import MetadataRequest
from tests.network.raw_client import RawClient
from tests.ports import free_ports
from tests.servers.kafkapy_process import KafkapyProcess

CONTAINERFILE = Path(__file__).resolve().parents[2] / "Containerfile"
HEALTHY_WITHIN = 20


class Container(KafkapyProcess):
    """A broker that has its settings from variables alone."""

    def arguments(self) -> Iterator[str]:
        yield "--container"


def health_check() -> list[str]:
    """The command of the image's health check, with the Python of this test."""
    command = re.search(
        r"^HEALTHCHECK .*?CMD (\[.*?\])$", CONTAINERFILE.read_text(), re.DOTALL | re.MULTILINE
    )
    assert command is not None
    python, *arguments = json.loads(command[1])
    assert python == "python"
    return [sys.executable, *arguments]


def is_healthy(environment: dict[str, str]) -> bool:
    return subprocess.run(health_check(), env=environment, capture_output=True, check=False).returncode == 0


@pytest.fixture
def ports() -> list[int]:
    return free_ports(3)


@pytest.fixture
def environment(ports: list[int], tmp_path: Path) -> dict[str, str]:
    """The variables of a file that was written for Apache Kafka's image, with free ports."""
    host, inside, metrics = ports
    return {
        "KAFKA_NODE_ID": "7",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": f"CONTROLLER://:29093,HOST://127.0.0.1:{host},INSIDE://127.0.0.1:{inside}",
        "KAFKA_ADVERTISED_LISTENERS": f"HOST://localhost:{host},INSIDE://broker.example:19092",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,HOST:PLAINTEXT,INSIDE:PLAINTEXT",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "7@broker.example:29093",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "INSIDE",
        "KAFKA_HEAP_OPTS": "-Xmx512m",
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
        "KAFKA_METRICS_PORT": str(metrics),
        "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    }


def test_each_listener_of_a_container_advertises_its_own_address(
    environment: dict[str, str], ports: list[int], tmp_path: Path
) -> None:
    container = Container(tmp_path, environment=environment)
    container.bootstrap_servers = f"127.0.0.1:{ports[0]}"
    with container:
        found = {}
        for port in ports[:2]:
            with RawClient(f"127.0.0.1:{port}") as client:
                (broker,) = client.ask(MetadataRequest(topics=[]), 9).brokers
            found[port] = (broker.node_id, broker.host, broker.port)
        assert found == {ports[0]: (7, "localhost", ports[0]), ports[1]: (7, "broker.example", 19092)}
        assert (tmp_path / "data/meta.properties").exists()
        assert "HEAP" not in container.output()


def test_a_container_is_healthy_while_its_broker_serves(
    environment: dict[str, str], ports: list[int], tmp_path: Path
) -> None:
    container = Container(tmp_path, environment=environment)
    container.bootstrap_servers = f"127.0.0.1:{ports[0]}"
    assert not is_healthy(environment)
    with container:
        deadline = time.monotonic() + HEALTHY_WITHIN
        while not is_healthy(environment):
            assert time.monotonic() < deadline, container.output()
    assert not is_healthy(environment)


def test_a_variable_that_needs_java_is_refused_in_one_line(
    environment: dict[str, str], tmp_path: Path
) -> None:
    environment["KAFKA_OPTS"] = "-Djava.security.auth.login.config=/jaas.conf"
    container = Container(tmp_path, environment=environment)
    container.launch()
    assert container.wait(30) == 2
    (line,) = container.output().splitlines()
    assert line.startswith("kafkapy: KAFKA_OPTS: java.security.auth.login.config names a file for Java")
