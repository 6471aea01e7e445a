"""The HTTP port: what it answers, and that hostile clients do no harm."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.client
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import kafkapy
from kafkapy.broker.core import BrokerCore
from kafkapy.configs.config import BrokerConfig
from kafkapy.metrics import http_server
from kafkapy.metrics.http_server import Answer, HttpServer
from kafkapy.metrics.scrape import Pages, Scrapes
from kafkapy.protocol.messages.metadata import MetadataRequest
from tests.metrics.prometheus import Served, serving
from tests.network.raw_client import RawClient, eventually
from tests.ports import free_ports
from tests.replicas.held_files import until

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving() as started:
        yield started


def ask(served: Served, path: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    connection.request(method, path, headers=headers)
    return connection.getresponse()


def raw(served: Served, request: bytes) -> bytes:
    """The answer to these bytes."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as client:
        client.sendall(request)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while more := client.recv(65536):
                answer += more
        return answer


@pytest.mark.parametrize("path", ["/metrics", "/health", "/ready", "/metrics?name[]=up"])
def test_metrics_health_and_readiness_are_served(served: Served, path: str) -> None:
    answer = ask(served, path)
    assert answer.status == 200
    assert answer.read()


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip;q=0", None),
        ("gzip; q=0.000, deflate", None),
        ("identity", None),
        ("x-gzip", None),
        ("gzip;q=nan", None),
        ("*;q=0", None),
        ("gzip;q=0, *", None),
        ("GZIP ; Q=0.001", "gzip"),
        ("deflate, gzip;q=1.0", "gzip"),
        ("*", "gzip"),
    ],
)
def test_only_those_who_take_gzip_get_it(served: Served, accepted: str, encoding: str | None) -> None:
    answer = ask(served, "/metrics", **{"Accept-Encoding": accepted})
    assert answer.getheader("Content-Encoding") == encoding


def test_the_page_is_compressed_for_those_who_take_that(served: Served) -> None:
    answer = ask(served, "/metrics", **{"Accept-Encoding": "deflate, gzip;q=0.5"})
    assert answer.getheader("Content-Encoding") == "gzip"
    assert answer.getheader("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    assert b"kafka_brokers 1" in gzip.decompress(answer.read())


@pytest.mark.parametrize("path", ["/", "/metrics/", "/metricsx", "/../etc/passwd", "//metrics", "/%6detrics"])
def test_nothing_else_is_served(served: Served, path: str) -> None:
    assert ask(served, path).status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "CONNECT"])
def test_nothing_but_get_is_served(served: Served, method: str) -> None:
    answer = ask(served, "/metrics", method)
    assert answer.status == 405
    assert answer.getheader("Allow") == "GET"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /metrics\r\n\r\n", b"400"),
        (b"\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"400"),
        (b"GET /\xff\xfe HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n", b"431"),
        (b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n", b"431"),
    ],
)
def test_bad_requests_are_refused(served: Served, request_bytes: bytes, status: bytes) -> None:
    assert raw(served, request_bytes).split(b" ")[1] == status
    assert ask(served, "/health").status == 200


@contextlib.asynccontextmanager
async def one_page(page: http_server.Page) -> AsyncIterator[tuple[HttpServer, int]]:
    """A server of one page, and its port."""
    server, listening = HttpServer({"/page": page}), socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    await server.start(listening)
    try:
        yield server, listening.getsockname()[1]
    finally:
        await server.stop()


async def large_page(_: bool) -> Answer:
    return Answer(200, [b"x" * (64 << 20)])


async def test_a_slow_client_is_closed_and_makes_room() -> None:
    async with one_page(large_page) as (server, port):
        server.request_seconds = 0.2
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HT")
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(10), 30) == b""
        assert server.connections == 0
        writer.close()


async def test_a_client_that_does_not_read_is_closed() -> None:
    async with one_page(large_page) as (server, port):
        server.answer_seconds = 0.5
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            client.sendall(b"GET /page HTTP/1.1\r\n\r\n")
            await until(lambda: server.connections == 1)
            await until(lambda: server.connections == 0)


def test_connections_are_bounded_and_clients_of_kafka_are_served_meanwhile() -> None:
    with serving() as served:
        many = [
            socket.create_connection(("127.0.0.1", served.port), timeout=30)
            for _ in range(http_server.MOST_CONNECTIONS)
        ]
        endpoint = served.broker.core.metrics
        assert endpoint is not None
        eventually(lambda: endpoint.connections == len(many), "all are accepted")
        with (
            socket.create_connection(("127.0.0.1", served.port), timeout=30) as beyond,
            contextlib.suppress(ConnectionResetError),
        ):
            assert beyond.recv(10) == b""
        with RawClient(served.broker.bootstrap_servers) as client:
            assert client.ask(MetadataRequest(topics=[]), 9).brokers
        many.pop().close()
        eventually(lambda: endpoint.connections < http_server.MOST_CONNECTIONS, "there is room")
        assert ask(served, "/health").status == 200
        for each in many:
            each.close()


def test_clients_that_come_together_share_one_scrape(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, made = [], []
    all_asked = asyncio.Event()
    answer, make = Scrapes.answer, Scrapes._make

    async def noted(self: Scrapes, takes_gzip: bool) -> Answer:
        asked.append(1)
        if len(asked) == 8:
            all_asked.set()
        return await answer(self, takes_gzip)

    async def counted(self: Scrapes) -> Pages:
        made.append(1)
        await asyncio.wait_for(all_asked.wait(), 30)
        return await make(self)

    monkeypatch.setattr(Scrapes, "answer", noted)
    monkeypatch.setattr(Scrapes, "_make", counted)
    with serving() as served:
        waiting = []
        for _ in range(8):
            client = socket.create_connection(("127.0.0.1", served.port), timeout=30)
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            waiting.append(client)
        for client in waiting:
            assert client.recv(15) == b"HTTP/1.1 200 OK"
            client.close()
        assert len(made) == 1


async def test_a_broker_is_alive_before_it_is_ready_and_not_ready_when_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = free_ports(1)
    core = BrokerCore(
        BrokerConfig(
            {
                "log.dirs": str(tmp_path / "data"),
                "listeners": "PLAINTEXT://127.0.0.1:0",
                "metrics.port": str(port),
            }
        )
    )
    seen: list[tuple[str, int]] = []

    async def status(path: str) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        line = await reader.readline()
        writer.close()
        return int(line.split()[1])

    accept = core._publish

    async def publish(*parts: Any) -> None:
        seen.extend([(path, await status(path)) for path in ("/health", "/ready", "/metrics")])
        await accept(*parts)

    monkeypatch.setattr(core, "_publish", publish)
    await core.start()
    assert seen == [("/health", 200), ("/ready", 503), ("/metrics", 503)]
    assert [await status(path) for path in ("/health", "/ready", "/metrics")] == [200, 200, 200]
    core.server.stop_accepting()
    assert [await status(path) for path in ("/health", "/ready", "/metrics")] == [200, 503, 503]
    await core.stop()
    with pytest.raises(OSError, match="Connect"):
        await asyncio.open_connection("127.0.0.1", port)


def test_a_port_in_use_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            kafkapy.StartError,
            match=rf"cannot listen on 127.0.0.1:{port}: the port is in use; stop what uses it",
        ):
            kafkapy.Broker(config={"metrics.port": port}).start()


def test_a_missing_client_library_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(kafkapy.StartError, match=r"pip install '\.\[metrics\]'"):
        kafkapy.Broker(config={"metrics.port": 0}).start()


def test_a_broker_without_the_setting_imports_nothing_of_it() -> None:
    code = """
import json, sys, kafkapy
with kafkapy.Broker() as broker:
    core = broker.core
    assert core.server.shared.metrics is core.replicas.traffic is core.group_commit.times is None
    print(json.dumps([name for name in sys.modules if name.startswith(("kafkapy.metrics", "prometheus"))]))
"""
    ended = subprocess.run((sys.executable, "-c", code), cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(ended.stdout) == []
