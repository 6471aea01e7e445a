"""`DockerContainer` of testcontainers for images of Kafka and of schema registries.

`Network` has no effect.

Suites that need more than one container, or settings of their own, build on it. An image of Kafka is a broker
in the process that listens at the port which is bound, and one of a schema registry a registry of the broker
that its variables name. Other images are testcontainers' own, if it is installed, and need Docker as before.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from types import ModuleType, TracebackType
from typing import Any, Final, NoReturn, Self

from kafkapy.configs.container import setting_of
from kafkapy.inprocess import Broker
from kafkapy.registry.server import SchemaRegistry
from kafkapy.stand_ins.container import HOST, Container, broker_at, forget, refuse, settings_of

_KAFKA: Final = re.compile(r"(^|/)(cp-kafka|cp-server|confluent-local|kafka|kafka-native)(:|@|$)")
_REGISTRY: Final = re.compile(r"(^|/)(cp-schema-registry|karapace|schema-registry)(:|@|$)")
_STARTED: Final = (b"[KafkaServer id=1] Kafka Server started\n", b"")
_REGISTRY_STARTED: Final = (b"Server started, listening for requests...\n", b"")
_REGISTRYS_BROKERS: Final = "SCHEMA_REGISTRY_KAFKASTORE_BOOTSTRAP_SERVERS"


class ImageContainer(Container):
    """A container of an image that kafkapy stands in for."""

    def __init__(self, image: str, *, is_registry: bool) -> None:
        super().__init__(image)
        self.image, self._is_registry = image, is_registry
        self._ports: dict[int, int] = {}
        self._started: Broker | SchemaRegistry | None = None

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        refuse(self.image, name)

    def with_bind_ports(self, container: str | int, host: str | int | None = None) -> Self:
        self._ports[int(str(container).partition("/")[0])] = int(host or 0)
        return self

    def with_exposed_ports(self, *ports: str | int) -> Self:
        for port in ports:
            self._ports.setdefault(int(str(port).partition("/")[0]), 0)
        return self

    def start(self) -> Self:
        if self._started is None:
            port = next(iter(self._ports.values()), 0)
            self._started = self._registry(port) if self._is_registry else self._broker(port)
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        if self._started is not None:
            started, self._started = self._started, None
            if isinstance(started, Broker):
                forget(started)
            started.__exit__(None, None, None)

    def get_logs(self) -> tuple[bytes, bytes]:
        """What suites wait for in the log of an image."""
        if self._started is None:
            return b"", b""
        return _REGISTRY_STARTED if self._is_registry else _STARTED

    def get_exposed_port(self, port: int) -> int:
        if isinstance(self._started, Broker):
            return int(self._started.bootstrap_servers.rpartition(":")[2])
        if self._started is None:
            raise RuntimeError(f"the container of {self.image} has not been started")
        return int(self._started.url.rpartition(":")[2])

    def _broker(self, port: int) -> Broker:
        settings = {**settings_of(self.image, self._variables), "listeners": f"PLAINTEXT://{HOST}:{port}"}
        # Suites look for the broker by its id.
        for variable, value in self._variables.items():
            if setting_of(variable) in ("node.id", "broker.id"):
                settings["node.id"] = value
        broker = Broker(config=settings)
        broker.start()
        self._serve(broker)
        return broker

    def _registry(self, port: int) -> SchemaRegistry:
        named = self._variables.get(_REGISTRYS_BROKERS, "")
        address = named.partition("://")[2] or named
        broker = broker_at(address)
        servers = address if broker is None else broker.bootstrap_servers
        if not servers:
            raise ValueError(f"{self.image}: {_REGISTRYS_BROKERS} names no broker")
        registry = SchemaRegistry(servers, host=HOST, port=port)
        registry.__enter__()
        return registry


class Network:
    """A network of Docker's, which brokers in one process do not need."""

    name = "kafkapy"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def create(self) -> Self:
        return self

    def remove(self) -> None:
        pass

    def connect(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


def install() -> None:
    """Let `DockerContainer` be the stand-in's for the images that it knows."""
    try:
        real: type[Any] = import_module("testcontainers.core.container").DockerContainer
        network = import_module("testcontainers.core.network")
    except ModuleNotFoundError:
        real = _Unknown
        for name in ("testcontainers", "testcontainers.core", "testcontainers.core.container"):
            sys.modules.setdefault(name, ModuleType(name, "Stand-in of kafkapy."))
        network = sys.modules["testcontainers.core.network"] = ModuleType("testcontainers.core.network")
    sys.modules["testcontainers.core.container"].__dict__["DockerContainer"] = _dispatching(real)
    network.__dict__["Network"] = Network


class _Unknown:
    """A container of another image, without testcontainers."""

    def __init__(self, image: str, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            f"kafkapy stands in for images of Kafka, and {image} is none: install testcontainers"
        )


def _dispatching(real: type[Any]) -> type[Any]:
    """A class from which testcontainers' own may be derived."""

    def new(cls: type[Any], image: str = "", *args: Any, **kwargs: Any) -> Any:
        if cls is made:
            for pattern, is_registry in ((_KAFKA, False), (_REGISTRY, True)):
                if pattern.search(image):
                    return ImageContainer(image, is_registry=is_registry)
        return object.__new__(cls)

    made: type[Any] = type("DockerContainer", (real,), {"__new__": new})
    return made
