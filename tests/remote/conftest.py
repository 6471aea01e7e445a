"""A client of what is served of a broker, as a test in another language has it."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kafkapy.cluster import Cluster
from kafkapy.inprocess import Broker
from kafkapy.remote.brokers import Brokers
from kafkapy.remote.server import RemoteServer

JSON = {"Content-Type": "application/json"}


def run_beside(*options: str, script: str, seconds: float = 300) -> subprocess.CompletedProcess[str]:
    """The end of a script of bash beside a broker of `kafkapy run`."""
    command = [sys.executable, "-m", "kafkapy", "run", *options]
    return subprocess.run(
        [*command, "--", "env", f"PYTHON={sys.executable}", "bash", "-c", script],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


class Client:
    """A client of the server of brokers."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.address = url.removeprefix("http://")

    def ask(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        status, told, _ = self.ask_fully(method, path, body, headers)
        return status, told

    def ask_fully(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any, http.client.HTTPMessage]:
        """The status, the body and the headers of an answer."""
        connection = http.client.HTTPConnection(self.address, timeout=60)
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        connection.request(method, path, data, JSON if headers is None else headers)
        answer = connection.getresponse()
        told = json.loads(answer.read())
        connection.close()
        return answer.status, told, answer.headers


Serve = Callable[[Broker | Cluster], Client]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:

        def served(brokers: Broker | Cluster) -> Client:
            return Client(stack.enter_context(RemoteServer(Brokers(brokers), 0)).url)

        yield served


@pytest.fixture
def client(kafka_broker: Broker, serve: Serve) -> Client:
    """A client of the broker alone of a test."""
    return serve(kafka_broker)
