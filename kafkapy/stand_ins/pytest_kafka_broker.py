"""The fixtures of pytest-kafka-broker, whose broker needs a JVM and a download.

Its `kafka_broker` is an object with methods that make clients. Here it also has all that kafkapy's
`kafka_broker` has, so that a suite may use both. `--kafka` has no effect: no test is skipped without it.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final, NoReturn

import pytest

from kafkapy.inprocess import Broker
from kafkapy.stand_ins.container import OF_A_CONTAINER
from kafkapy.storage.disk.properties import parse_properties

_MODULE: Final = "pytest_kafka_broker"
_PLUGIN: Final = "kafka_broker"
"""The name under which pytest knows the plugin of the package."""
_EXTRA_CONFIG: Final = "kafka_broker_extra_config"
WINDOWS: Final = False
"""What suites ask of the package's plugin."""


@dataclass
class KafkaBrokerContext:
    """A running broker, and clients of it by confluent-kafka."""

    bootstrap_server: str
    _broker: Broker | None = field(default=None, repr=False, compare=False)

    def __getattr__(self, name: str) -> Any:
        """What kafkapy's fixture has: topics, groups, faults, an end and another start."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._broker, name)

    def config(self, config: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return {
            **(config or {}),
            "bootstrap.servers": self.bootstrap_server,
            "security.protocol": "PLAINTEXT",
        }

    def admin(self, config: Mapping[str, Any] | None = None) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient(self.config(config))

    def producer(self, config: Mapping[str, Any] | None = None) -> Any:
        from confluent_kafka import Producer

        return Producer(self.config(config))

    def consumer(self, config: Mapping[str, Any] | None = None) -> Any:
        from confluent_kafka import Consumer

        return Consumer(self.config(config))

    def aio_producer(self, config: Mapping[str, Any] | None = None) -> Any:
        from confluent_kafka.aio import AIOProducer

        return AIOProducer(self.config(config))

    def aio_consumer(self, config: Mapping[str, Any] | None = None) -> Any:
        from confluent_kafka.aio import AIOConsumer

        return AIOConsumer(self.config(config))


@pytest.fixture(scope="session")
def kafka_broker_config(
    kafka_broker_config: Mapping[str, object], pytestconfig: pytest.Config
) -> Mapping[str, object]:
    """The settings of `kafka_broker_extra_config`, and those of the suite's own fixture."""
    return {**_settings(pytestconfig.getini(_EXTRA_CONFIG)), **kafka_broker_config}


@pytest.fixture
def kafka_broker(kafka_broker: Broker) -> KafkaBrokerContext:
    """The broker of kafkapy's fixture of this name, as pytest-kafka-broker shows its own."""
    return KafkaBrokerContext(kafka_broker.bootstrap_servers, kafka_broker)


@pytest.fixture
def find_unused_tcp_port() -> Callable[[int], int]:
    """Find ports on which nothing listens; the one that is asked for, if it is free."""
    used: set[int] = set()

    def find(default: int = 0) -> int:
        for port in (default, 0):
            with socket.socket() as tried:
                try:
                    tried.bind(("127.0.0.1", port))
                except OSError:
                    continue
                found = int(tried.getsockname()[1])
            if found not in used:
                used.add(found)
                return found
        return find()

    return find


@pytest.fixture(scope="session")
def kafka_home() -> NoReturn:
    """Refuse to name a folder of Apache Kafka: there is none."""
    _refuse("kafka_home")


class _Options:
    """The options of the package, which is not installed."""

    def pytest_addoption(self, parser: pytest.Parser) -> None:
        parser.getgroup("Kafka broker").addoption(
            "--kafka", action="store_true", help="has no effect with kafka_stand_in"
        )
        parser.addini(_EXTRA_CONFIG, type="linelist", help="settings of the broker")


def install(config: pytest.Config) -> None:
    """Let the plugin's fixtures, and what suites import of it, be the stand-in's."""
    plugins = config.pluginmanager
    if plugins.unregister(name=_PLUGIN) is None:
        plugins.register(_Options(), f"{__name__}.options")
    plugin = sys.modules[__name__]
    plugins.register(plugin, __name__)
    module = ModuleType(_MODULE, "Stand-in of kafkapy.")
    module.__dict__.update(KafkaBrokerContext=KafkaBrokerContext, plugin=plugin)
    sys.modules |= {_MODULE: module, f"{_MODULE}.plugin": plugin}


def _settings(lines: list[str]) -> dict[str, object]:
    """The settings of the configuration's lines, but for those that say where a broker listens."""
    given = parse_properties("\n".join(lines))
    if any("SSL" in given.get(name, "") for name in ("listeners", "listener.security.protocol.map")):
        _refuse(f"{_EXTRA_CONFIG} with TLS or logins")
    return {name: value for name, value in given.items() if name not in OF_A_CONTAINER}


def _refuse(what: str) -> NoReturn:
    raise NotImplementedError(
        f"kafkapy stands in for pytest-kafka-broker without {what}: take kafka_stand_in out of pytest's"
        " configuration for this suite"
    )
