"""`KafkaContainer` and `RedpandaContainer` of testcontainers, as brokers in the process.

They have the same constructors and the methods of a container that make sense without one. What does not is
refused: a command, files, logs of an image. Variables are read as an image of Kafka reads them,
but for its listeners: the broker listens on 127.0.0.1.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, ClassVar, Final, NoReturn, Self

import pytest

from kafkapy.inprocess import Broker
from kafkapy.registry.server import SchemaRegistry
from kafkapy.stand_ins import testcontainers_core
from kafkapy.stand_ins.container import Container, forget, refuse, settings_of

_MODULES: Final = ("testcontainers.kafka", "testcontainers.community.kafka")
_ABSENT: Final = frozenset(
    {
        "copy_from_container",
        "copy_into_container",
        "create_file",
        "exec",
        "get_container_id",
        "get_container_info",
        "get_docker_client",
        "get_logs",
        "get_wrapped_container",
        "wait",
        "with_bind_ports",
        "with_command",
        "with_copy_into_container",
        "with_env_file",
        "with_tmpfs_mount",
        "with_volume_mapping",
    }
)
"""Methods of containers that a broker in a process has no answer to."""


class _KafkaConfig:
    """The options of testcontainers for its Kafka containers, which have no effect here."""

    limit_broker_to_first_host = False


class _Container(Container):
    """What both containers have."""

    NAME: ClassVar[str]

    def __init__(self, image: str, port: int) -> None:
        super().__init__(self.NAME)
        self.image, self.port = image, port
        self._broker: Broker | None = None

    def __getattr__(self, name: str) -> NoReturn:
        if name in _ABSENT:
            refuse(self.NAME, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def maybe_emulate_amd64(self) -> Self:
        return self

    def start(self, timeout: float = 0) -> Self:
        if self._broker is None:
            broker = Broker(config=settings_of(self.NAME, self._variables))
            broker.start()
            self._broker = broker
            self._serve(broker)
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        if self._broker is not None:
            broker, self._broker = self._broker, None
            forget(broker)
            broker.__exit__(None, None, None)

    def get_bootstrap_server(self) -> str:
        return self._running().bootstrap_servers

    def get_exposed_port(self, port: int) -> int:
        if port != self.port:
            raise ConnectionError(f"{self.NAME} of kafkapy has the port {self.port} only, not {port}")
        return int(self._running().bootstrap_servers.rpartition(":")[2])

    def _running(self) -> Broker:
        if self._broker is None:
            raise RuntimeError(f"{self.NAME} has not been started")
        return self._broker


class KafkaContainer(_Container):
    """Stands in for `testcontainers.kafka.KafkaContainer`."""

    NAME = "KafkaContainer"

    def __init__(
        self,
        image: str = "confluentinc/cp-kafka:7.6.0",
        port: int = 9093,
        wait_strategy_check_string: str = "",
        listener_name: str = "PLAINTEXT",
        security_protocol: str = "PLAINTEXT",
        **kwargs: Any,
    ) -> None:
        super().__init__(image, kwargs.pop("port_to_expose", port))
        self.kraft_enabled = False
        if security_protocol != "PLAINTEXT":
            refuse(self.NAME, f"security_protocol={security_protocol}")

    def with_kraft(self) -> Self:
        self.kraft_enabled = True
        return self

    def with_cluster_id(self, cluster_id: str) -> Self:
        refuse(self.NAME, "with_cluster_id")


class RedpandaContainer(_Container):
    """Stands in for `testcontainers.kafka.RedpandaContainer`, schema registry included."""

    NAME = "RedpandaContainer"

    def __init__(
        self, image: str = "docker.redpanda.com/redpandadata/redpanda:v23.1.13", **kwargs: Any
    ) -> None:
        super().__init__(image, 9092)
        self._registry: SchemaRegistry | None = None

    def get_schema_registry_address(self) -> str:
        if self._registry is None:
            self._registry = SchemaRegistry(self._running().bootstrap_servers)
            self._registry.start()
        return self._registry.url

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        if self._registry is not None:
            self._registry.stop()
            self._registry = None
        super().stop(force, delete_volume)


def install(config: pytest.Config) -> None:
    """Let `from testcontainers.kafka import KafkaContainer` give the stand-in."""
    for name in _MODULES:
        module = ModuleType(name, "Stand-ins of kafkapy.")
        module.__dict__.update(
            KafkaContainer=KafkaContainer, RedpandaContainer=RedpandaContainer, kafka_config=_KafkaConfig()
        )
        sys.modules[name] = module
    testcontainers_core.install()
