"""The factories of pytest-kafka, whose fixtures are brokers in the process.

They have the same parameters. The launch scripts are not needed, and there is no ZooKeeper: its port is 0.
The template's settings count, but for those that say where a broker listens and who it is.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final, Literal

import pytest

from kafkapy.configs.properties import read_properties
from kafkapy.inprocess import Broker
from kafkapy.stand_ins.container import OF_A_CONTAINER

KAFKA_SERVER_CONFIG_TEMPLATE: Final = "num.partitions=1\nlog.retention.hours=1\n"
ZOOKEEPER_CONFIG_TEMPLATE: Final = ""
DEFAULT_CONSUMER_TIMEOUT_MS: Final = 500
DEFAULT_TERMINATION_WAIT_TIMEOUT_SEC: Final = 5

_Scope = Literal["session", "package", "module", "class", "function"]
_ASSIGNED_SECONDS: Final = 15


class Process:
    """What suites do with the process of a server: end it, and see that it has ended."""

    def __init__(self, broker: Broker | None) -> None:
        self._broker = broker
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        """End the broker as the signal would: SIGKILL at once, others in order."""
        if self.returncode is None:
            self.returncode = -number
            if self._broker is not None:
                if number == signal.SIGKILL:
                    self._broker.kill()
                else:
                    self._broker.stop()

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            raise subprocess.TimeoutExpired("kafkapy", timeout or 0)
        return self.returncode


def terminate(
    proc: Process,
    signal_fn: Callable[[Any], Any] = Process.terminate,
    wait_timeout: float = DEFAULT_TERMINATION_WAIT_TIMEOUT_SEC,
) -> None:
    """End a server; `signal_fn` may be a method of subprocess.Popen."""
    signal_fn(proc)


def make_zookeeper_process(
    zk_bin: str,
    zk_port: int | None = None,
    zk_config_template: str = ZOOKEEPER_CONFIG_TEMPLATE,
    teardown_fn: Callable[[Any], Any] = terminate,
    scope: _Scope = "function",
) -> Any:
    """Make the fixture that a server's fixture names; nothing runs."""

    @pytest.fixture(scope=scope)
    def zookeeper_process() -> Iterator[tuple[Process, int]]:
        process = Process(None)
        yield process, zk_port or 0
        teardown_fn(process)

    return zookeeper_process


def make_kafka_server(
    kafka_bin: str,
    zookeeper_fixture_name: str,
    kafka_port: int | None = None,
    kafka_config_template: str = KAFKA_SERVER_CONFIG_TEMPLATE,
    teardown_fn: Callable[[Any], Any] = terminate,
    scope: _Scope = "function",
    timeout: int = 15,
) -> Any:
    """Make a fixture of a broker: its process, and the port at which it listens on localhost."""

    @pytest.fixture(scope=scope)
    def kafka_server(
        request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[tuple[Process, int]]:
        _, zk_port = request.getfixturevalue(zookeeper_fixture_name)
        file = tmp_path_factory.mktemp("kafka-server") / "kafka-server.properties"
        port = kafka_port or 0
        file.write_text(
            kafka_config_template.format(kafka_port=port, kafka_log_dir=file.parent, zk_port=zk_port)
        )
        with Broker(config=_settings(read_properties(file), port)) as broker:
            process = Process(broker)
            yield process, int(broker.bootstrap_servers.rpartition(":")[2])
            teardown_fn(process)

    return kafka_server


def make_kafka_consumer(
    kafka_fixture_name: str,
    kafka_topics: list[str] | None = None,
    seek_to_beginning: bool = False,
    scope: _Scope = "function",
    **consumer_kwargs: Any,
) -> Any:
    """Make a fixture of kafka-python's consumer of a broker's fixture."""

    @pytest.fixture(scope=scope)
    def kafka_consumer(request: pytest.FixtureRequest) -> Iterator[Any]:
        from kafka import KafkaConsumer

        _, port = request.getfixturevalue(kafka_fixture_name)
        options = {
            "bootstrap_servers": f"localhost:{port}",
            "consumer_timeout_ms": DEFAULT_CONSUMER_TIMEOUT_MS,
            **consumer_kwargs,
        }
        consumer = KafkaConsumer(*kafka_topics or (), **options)
        if seek_to_beginning:
            deadline = time.monotonic() + _ASSIGNED_SECONDS
            while not consumer.assignment():
                assert time.monotonic() < deadline, "no partition was assigned: name the topics"
                consumer.poll(timeout_ms=20)
            consumer.seek_to_beginning()
        yield consumer
        consumer.close()

    return kafka_consumer


def install(config: pytest.Config) -> None:
    """Let `from pytest_kafka import make_kafka_server` give the stand-in."""
    for name in ("pytest_kafka", "pytest_kafka.constants"):
        module = ModuleType(name, "Stand-ins of kafkapy.")
        module.__dict__.update(
            make_zookeeper_process=make_zookeeper_process,
            make_kafka_server=make_kafka_server,
            make_kafka_consumer=make_kafka_consumer,
            terminate=terminate,
            KAFKA_SERVER_CONFIG_TEMPLATE=KAFKA_SERVER_CONFIG_TEMPLATE,
            ZOOKEEPER_CONFIG_TEMPLATE=ZOOKEEPER_CONFIG_TEMPLATE,
            DEFAULT_CONSUMER_TIMEOUT_MS=DEFAULT_CONSUMER_TIMEOUT_MS,
            DEFAULT_TERMINATION_WAIT_TIMEOUT_SEC=DEFAULT_TERMINATION_WAIT_TIMEOUT_SEC,
        )
        sys.modules[name] = module


def _settings(template: dict[str, str], port: int) -> dict[str, str]:
    """The broker's settings of a template."""
    listeners = template.get("listeners", "PLAINTEXT://:0")
    if any(not each.strip().startswith("PLAINTEXT://") for each in listeners.split(",")):
        raise NotImplementedError(
            f"kafkapy stands in for pytest-kafka without listeners={listeners}: take kafka_stand_in out of"
            " pytest's configuration for this suite"
        )
    settings = {name: value for name, value in template.items() if name not in OF_A_CONTAINER}
    return settings | {"listeners": f"PLAINTEXT://127.0.0.1:{port}"}
