"""What a container that a broker stands in for has: variables, a start, a stop, an address."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from kafkapy.configs.container import setting_of
from kafkapy.inprocess import Broker

HOST: Final = "127.0.0.1"

OF_A_CONTAINER: Final = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "controller.listener.names",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dirs",
        "node.id",
        "process.roles",
        "zookeeper.connect",
    }
)
"""Settings that say how a container listens, and what it is in a cluster of containers."""
_SECURED: Final = re.compile(r"(?<![\w.-])(SSL|SASL_PLAINTEXT|SASL_SSL)\s*(://|,|$)", re.IGNORECASE)
"""A listener with TLS or a login, in `listeners` or in the map of protocols."""

_by_name: dict[str, Broker] = {}
"""The brokers that run, by their addresses and names in networks of containers."""


class Container(ABC):
    """A container as testcontainers has it, without what is the broker's or the registry's.

    What has no effect in a process returns the container.

    Args:
        name: what it stands in for, for messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._variables: dict[str, str] = {}
        self._aliases: list[str] = []
        """Its names in a network of containers."""

    @abstractmethod
    def start(self) -> Self:
        """Start what it stands for, once."""

    @abstractmethod
    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        """Stop it, if it runs."""

    def with_env(self, key: str, value: str) -> Self:
        self._variables[key] = str(value)
        return self

    def with_envs(self, **variables: str) -> Self:
        for key, value in variables.items():
            self.with_env(key, value)
        return self

    def with_exposed_ports(self, *ports: str | int) -> Self:
        return self

    def with_name(self, name: str) -> Self:
        return self

    def with_kwargs(self, **kwargs: Any) -> Self:
        return self

    def with_network(self, network: object) -> Self:
        return self

    def with_network_aliases(self, *aliases: str) -> Self:
        self._aliases += aliases
        return self

    def waiting_for(self, strategy: object) -> Self:
        """Nothing to wait for: it answers when `start` returns."""
        return self

    def get_container_host_ip(self) -> str:
        return HOST

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _serve(self, broker: Broker) -> None:
        """Have other containers find the broker by the addresses that this one has for them."""
        for alias in self._aliases:
            _by_name[alias] = broker
        for variable, value in self._variables.items():
            if setting_of(variable) in ("advertised.listeners", "listeners"):
                for listener in value.split(","):
                    _by_name[listener.partition("://")[2].strip()] = broker


def broker_at(address: str) -> Broker | None:
    """The running broker that a container has at an address of its network, `HOST:PORT`."""
    return _by_name.get(address) or _by_name.get(address.rpartition(":")[0])


def forget(broker: Broker) -> None:
    """Let no container find a broker any more, which is about to stop."""
    for name in [each for each, known in _by_name.items() if known is broker]:
        del _by_name[name]


def settings_of(name: str, variables: Mapping[str, str]) -> dict[str, str]:
    """The broker's settings of an image's variables; those of a container have no effect."""
    settings = {}
    for variable, value in variables.items():
        setting = setting_of(variable)
        if setting in OF_A_CONTAINER and _SECURED.search(value):
            refuse(name, f"{variable}={value}")
        if setting is not None and setting not in OF_A_CONTAINER:
            settings[setting] = value
    return settings


def refuse(name: str, what: str) -> NoReturn:
    """Raise NotImplementedError: there is no such thing without a container."""
    raise NotImplementedError(
        f"kafkapy stands in for {name} without a container, so it has no {what}: take"
        " kafka_stand_in out of pytest's configuration for this suite"
    )
