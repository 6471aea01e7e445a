"""What a load is: something to run on a server, and what its figures are called."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from interop.support.server_process import ServerProcess
from interop.support.waiting import wait_until
from scripts.benchmarks.meter import Meter, Stopwatch

Figures = dict[str, float]

_numbers = itertools.count(1)


@dataclass
class Target:
    """A running server and the means to load and measure it."""

    server: ServerProcess
    meter: Meter = field(init=False)
    admin: AdminClient = field(init=False)

    def __post_init__(self) -> None:
        self.meter = Meter(self.server.pid)
        # What fails is raised; librdkafka would also print that the server was stopped.
        self.admin = AdminClient({"bootstrap.servers": self.server.bootstrap_servers, "log_level": 0})

    @property
    def bootstrap_servers(self) -> str:
        return self.server.bootstrap_servers

    def stopwatch(self) -> Stopwatch:
        return Stopwatch(self.meter)

    def new_topic(self, partitions: int) -> str:
        topic = f"bench-{next(_numbers)}"
        self.admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
        wait_until(lambda: topic in self.admin.list_topics(timeout=30).topics)
        return topic

    def delete_topic(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(30)


@dataclass(frozen=True)
class Load:
    """`run(target, scale)` on a started server; a smaller run first warms it up."""

    title: str
    run: Callable[[Target, float], Figures]
    warm_up: float = 0.2


@dataclass(frozen=True)
class ColdLoad:
    """`run(name, folder)` starts and stops the server named `name` itself, in `folder`."""

    title: str
    run: Callable[[str, Path], Figures]
