"""Fixtures: a registry beside a broker, asked by plain HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from kafkapy import Broker, SchemaRegistry
from tests.refused_connections import refused_connections_closed

SCHEMA_TYPE = "application/vnd.schemaregistry.v1+json"


@dataclass(frozen=True)
class Answer:
    """What a registry answered."""

    status: int
    content: Any
    content_type: str

    @property
    def error(self) -> tuple[int, int]:
        """The HTTP status, and the code of the error."""
        return self.status, self.content["error_code"]


Ask = Callable[..., Answer]


def asking(url: str) -> Ask:
    """Ask a registry: method, path, body as an object or bytes, further headers."""

    def ask(method: str, path: str, body: Any = None, **headers: str) -> Answer:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(
            url + path, data, {"Content-Type": SCHEMA_TYPE, **named}, method=method
        )
        try:
            answer = urllib.request.urlopen(request, timeout=30)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            text, content_type = answer.read().decode(), answer.headers["Content-Type"]
            content = text if text.startswith("syntax") else json.loads(text)
            return Answer(answer.status, content, content_type)

    return ask


@pytest.fixture(scope="session", autouse=True)
def _refused_connections_are_closed() -> Iterator[None]:
    with refused_connections_closed():
        yield


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One broker for the tests of a module."""
    with Broker() as started:
        yield started


@pytest.fixture(scope="module")
def registry(broker: Broker) -> Iterator[SchemaRegistry]:
    """One registry for the tests of a module; they use subjects of their own."""
    with SchemaRegistry(broker.bootstrap_servers) as started:
        yield started


@pytest.fixture
def ask(registry: SchemaRegistry) -> Ask:
    """Asks the registry."""
    return asking(registry.url)


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> str:
    """A subject that no other test uses."""
    return f"{request.node.name.translate({ord('['): '-', ord(']'): None})}-value"
