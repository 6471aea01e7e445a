"""What a load is: something to run on a server, and the names of its figures."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from confluent_kafka.admin import AdminClient, NewTopic

from interop.support.waiting import wait_until
from scripts.benchmarks.meter import Meter, Stopwatch
from tests.servers.server_process import ServerProcess

Figures = dict[str, float]

_numbers = itertools.count(1)


class Target:
    """A running server, or those of a cluster, and the means to load and measure them."""

    def __init__(self, *servers: ServerProcess) -> None:
        self.servers = servers

    @cached_property
    def admin(self) -> AdminClient:
        """Made when the servers run: a client that cannot connect waits ever longer to try again."""
        # What fails is raised; librdkafka would also print that the server was stopped.
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    @property
    def server(self) -> ServerProcess:
        """The only one."""
        (server,) = self.servers
        return server

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(server.bootstrap_servers for server in self.servers)

    @property
    def client(self) -> dict[str, str]:
        """The settings with which a client of librdkafka reaches them."""
        return {"bootstrap.servers": self.bootstrap_servers}

    @property
    def replicas(self) -> int:
        """Of each new topic."""
        return len(self.servers)

    @property
    def meter(self) -> Meter:
        """Of the processes that run now."""
        return Meter(*(server.pid for server in self.servers if server.running))

    def stopwatch(self) -> Stopwatch:
        return Stopwatch(self.meter)

    def connect(self) -> socket.socket:
        """A connection to the only server."""
        return socket.create_connection(self.server.address, timeout=60)

    def new_topic(self, partitions: int, config: Mapping[str, str] | None = None) -> str:
        topic = f"bench-{next(_numbers)}"
        new = NewTopic(topic, partitions, self.replicas, config=dict(config or {}))
        self.admin.create_topics([new])[topic].result(30)
        wait_until(lambda: topic in self.admin.list_topics(timeout=30).topics)
        return topic

    def delete_topic(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(30)


TargetT = TypeVar("TargetT", bound=Target)


class Size(NamedTuple):
    """How much of a load is run."""

    scale: float
    """1 is the complete load."""
    repetitions: int
    warm_up_seconds: float
    """How long the load is repeated before it counts: Java's compiler needs a minute."""


@dataclass(frozen=True)
class Load(Generic[TargetT]):
    """A load on servers that are started already: `run(target, scale)`.

    `warm_up` is the scale of a first run that does not count; 0 for a load that must meet a fresh server.
    """

    title: str
    run: Callable[[TargetT, float], Figures]
    warm_up: float = 0.2
    by_default: bool = True
    """Whether it is run when no load is named."""

    def warm(self, target: TargetT, size: Size) -> None:
        """Run what does not count."""
        if not self.warm_up:
            return
        until = time.monotonic() + size.warm_up_seconds
        self.run(target, size.scale * self.warm_up)
        while time.monotonic() < until:
            self.run(target, size.scale)


@dataclass(frozen=True)
class ColdLoad:
    """`run(name, folder)` starts and stops the server named `name` itself, in `folder`."""

    title: str
    run: Callable[[str, Path], Figures]
    by_default = True
