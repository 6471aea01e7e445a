"""Connections that only cost: each ends in time, and others are answered."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import psutil
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kafkapy.serving.http_server import HttpServer
from tests.network.raw_client import eventually
from tests.registry.conftest import asking

PATIENCE = 0.5
LARGE = 64 << 20
"""More than the buffers of a connection hold."""


@pytest.fixture
def server() -> Iterator[HttpServer]:
    async def echo(request: Request) -> Response:
        return Response(await request.body(), media_type="application/json")

    async def large(request: Request) -> Response:
        return Response(bytes(LARGE))

    serving = HttpServer("127.0.0.1", 0, name="kafkapy-test", patience=PATIENCE)
    serving.serve(Starlette(routes=[Route("/", echo, methods=["GET", "POST"]), Route("/large", large)]))
    yield serving
    serving.stop()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"GET / HT", id="a part of a line"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n1", id="a part of a body"),
        pytest.param(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n", id="and reads nothing"),
    ],
)
def test_a_connection_without_progress_is_closed(server: HttpServer, sent: bytes) -> None:
    with closing(_connected(server)) as client:
        client.sendall(sent)
        assert asking(server.url)("POST", "/", 0).status == 200  # another is answered meanwhile
        port = client.getsockname()[1]
        eventually(lambda: port not in _clients(), "the server has closed the connection")


def test_a_connection_may_have_one_request_after_the_other(server: HttpServer) -> None:
    with closing(_connected(server)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        until = time.monotonic() + 3 * PATIENCE
        while time.monotonic() < until:
            client.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n1")
            answer = b""
            while not answer.endswith(b"\r\n\r\n1"):
                part = client.recv(1000)
                assert part
                answer += part


def _connected(server: HttpServer) -> socket.socket:
    address = urlsplit(server.url)
    assert address.hostname is not None
    return socket.create_connection((address.hostname, address.port or 0), timeout=30)


def _clients() -> set[int]:
    """The ports of all that are connected to this process."""
    connections = psutil.Process().net_connections("tcp")
    return {each.raddr.port for each in connections if each.raddr and each.status == psutil.CONN_ESTABLISHED}


def test_a_start_that_fails_is_raised() -> None:
    stopped = HttpServer("127.0.0.1", 0, name="test")
    stopped.stop()
    with pytest.raises((OSError, ValueError)):
        stopped.serve(Starlette())


def test_a_start_and_an_end_are_no_news(server: HttpServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        another = HttpServer("127.0.0.1", 0, name="test")
        another.serve(Starlette())
        another.stop()
    assert [record.name for record in caplog.records if record.name.startswith("uvicorn")] == []
