"""Bytes that no client sends, connections that end early, and readers that are slow."""

from __future__ import annotations

import resource
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from kafkapy import Broker
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.messages.metadata import MetadataRequest
from tests.ports import free_ports
from tests.trace.relaying import Traced, relaying


@pytest.fixture
def traced() -> Iterator[Traced]:
    with Broker() as broker, relaying(broker.bootstrap_servers) as traced:
        yield traced


@contextmanager
def a_server(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server of one connection, in place of a broker."""

    def run() -> None:
        peer, _ = listener.accept()
        with peer:
            serve(peer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        thread = threading.Thread(target=run)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(30)
        assert not thread.is_alive()


def connected(traced: Traced) -> socket.socket:
    host, _, port = traced.address.rpartition(":")
    return socket.create_connection((host, int(port)), 30)


def received(peer: socket.socket) -> bytes:
    """All that comes until the other side ends."""
    found = b""
    while piece := peer.recv(1 << 16):
        found += piece
    return found


def echo(peer: socket.socket) -> None:
    """Send back what came, once the client has ended its half."""
    peer.sendall(received(peer))


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


UNKNOWN = struct.pack(">hhi", 999, 3, 7) + b"what nobody knows"


def test_a_broker_that_is_down_is_one_line_and_the_client_is_let_go() -> None:
    with relaying(f"127.0.0.1:{free_ports(1)[0]}") as traced:
        with closing(connected(traced)) as client:
            assert received(client) == b""
        (event,) = traced.exchanges
        assert event.note.startswith("the broker cannot be reached: ")
        assert traced.lines().count("\n") == 1


def test_a_request_of_an_unknown_api_passes_unchanged_and_is_told() -> None:
    with a_server(echo) as server, relaying(server) as traced:
        with closing(connected(traced)) as client:
            client.sendall(frame(UNKNOWN))
            client.shutdown(socket.SHUT_WR)
            assert received(client) == frame(UNKNOWN)
        traced.until_noted("closed")
        assert "API 999 v3" in traced.lines()
        assert "no API has key 999" in traced.lines()


def test_a_version_that_is_unknown_passes_unchanged_and_is_told() -> None:
    request = frame(struct.pack(">hhih", 3, 99, 7, -1) + b"\0what nobody knows")
    with a_server(echo) as server, relaying(server) as traced:
        with closing(connected(traced)) as client:
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
            assert received(client) == request
        traced.until_noted("closed")
        assert "MetadataRequest has no version 99" in traced.lines()


@pytest.mark.parametrize("sent", [b"\xff\xff\xff\xff" + b"x" * 1000, b"\x16\x03\x01\x02\x00" + b"x" * 1000])
def test_what_is_no_frame_passes_unchanged(sent: bytes) -> None:
    with a_server(echo) as server, relaying(server) as traced:
        with closing(connected(traced)) as client:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            assert received(client) == sent
        traced.until_noted("the rest of the connection passes undecoded")


@pytest.mark.parametrize("sent", [b"\0\0", frame(UNKNOWN)[:-3], frame(b"")])
def test_a_torn_frame_passes_as_far_as_it_came(sent: bytes) -> None:
    with a_server(echo) as server, relaying(server) as traced:
        with closing(connected(traced)) as client:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            assert received(client) == sent
        traced.until_noted("closed")
        assert ("the client ended within a frame" in traced.lines()) == (sent != frame(b""))


def test_a_frame_that_comes_byte_by_byte_is_one_request(traced: Traced) -> None:
    with closing(connected(traced)) as client:
        for byte in encode_request(MetadataRequest(topics=[]), 9, 7, "slow"):
            client.sendall(bytes([byte]))
        (size,) = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))
        assert client.recv(size, socket.MSG_WAITALL)[:4] == struct.pack(">i", 7)
    traced.until(lambda: "slow Metadata v9" in traced.lines())


def test_a_client_that_goes_away_leaves_its_request_told() -> None:
    def serve(peer: socket.socket) -> None:
        received(peer)

    with a_server(serve) as server, relaying(server) as traced:
        with closing(connected(traced)) as client:
            client.sendall(encode_request(MetadataRequest(topics=[]), 9, 7, "gone"))
        traced.until_noted("no answer before the connection ended")
        traced.until_noted("closed")


def test_an_answer_that_nobody_waits_for_passes_and_is_told() -> None:
    def serve(peer: socket.socket) -> None:
        peer.sendall(frame(b"\0\0\0\1who asked"))

    with a_server(serve) as server, relaying(server) as traced:
        with closing(connected(traced)) as client:
            assert received(client) == frame(b"\0\0\0\1who asked")
            client.shutdown(socket.SHUT_WR)
        traced.until_noted("an answer of 13 bytes that no request waits for")


def test_a_client_that_does_not_read_stops_the_broker_and_not_the_memory() -> None:
    body = frame(b"\0\0\0\1" + bytes(1 << 20))
    sent, blocked = 0, threading.Event()

    def serve(peer: socket.socket) -> None:
        nonlocal sent
        peer.settimeout(1)
        try:
            for _ in range(512):
                peer.sendall(body)
                sent += len(body)
        except TimeoutError:
            blocked.set()

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with a_server(serve) as server, relaying(server) as traced, closing(connected(traced)):
        assert blocked.wait(30)
    assert sent < 64 << 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10
