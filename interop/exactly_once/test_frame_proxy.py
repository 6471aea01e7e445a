"""The proxy delays, doubles and loses frames.

A client sees what it would see of a bad network.
"""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
from collections.abc import Iterator

import pytest

from interop.exactly_once.frame_proxy import FIRST_OWN_EPOCH, Chances, Fate, FrameProxy
from interop.support.waiting import wait_until

KEY = 26
FRAME = struct.Struct(">ihhi")


class Echo(socketserver.ThreadingTCPServer):
    """Answers each request with its correlation id, and remembers it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.seen: list[tuple[int, tuple[str, int]]] = []
        """Correlation ids, and from where."""


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Echo)
        while frame := self.rfile.read(FRAME.size):
            _, _, _, correlation_id = FRAME.unpack(frame)
            self.server.seen.append((correlation_id, self.client_address))
            self.wfile.write(struct.pack(">ii", 4, correlation_id))


@pytest.fixture
def echo() -> Iterator[Echo]:
    with Echo() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def proxy(echo: Echo, fate: Fate, *, share: float = 1.0) -> FrameProxy:
    host, port = echo.server_address[:2]
    chances = {KEY: Chances(share, (fate,))}
    return FrameProxy((str(host), int(port)), seed=1, chances=chances, most_delay=0.01, most_late=0.01)


def connect(proxy: FrameProxy) -> socket.socket:
    host, _, port = proxy.bootstrap_servers.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=10)


def ask(
    client: socket.socket, correlation_id: int, *, key: int = KEY, version: int = FIRST_OWN_EPOCH
) -> bytes:
    client.sendall(FRAME.pack(FRAME.size - 4, key, version, correlation_id))
    return client.recv(100)


def answer(correlation_id: int) -> bytes:
    return struct.pack(">ii", 4, correlation_id)


@pytest.mark.parametrize("fate", [Fate.DOUBLED, Fate.DELAYED])
def test_a_frame_that_is_doubled_or_delayed_is_answered_once(echo: Echo, fate: Fate) -> None:
    with proxy(echo, fate) as between, connect(between) as client:
        assert [ask(client, number) for number in (1, 2, 3)] == [answer(number) for number in (1, 2, 3)]
        times = 2 if fate is Fate.DOUBLED else 1
        wait_until(lambda: len(echo.seen) == 3 * times)
        assert [number for number, _ in echo.seen] == [number for number in (1, 2, 3) for _ in range(times)]
        assert between.counts == {f"API key {KEY} {fate}": 3}


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.ANSWER_LOST])
def test_the_connection_ends_where_a_frame_or_its_answer_is_lost(echo: Echo, fate: Fate) -> None:
    with proxy(echo, fate) as between, connect(between) as client:
        assert ask(client, 1, key=KEY + 1) == answer(1)
        assert ask(client, 2) == b""
        assert [number for number, _ in echo.seen] == ([1] if fate is Fate.LOST else [1, 2])


def test_a_late_frame_comes_again_on_a_connection_of_its_own(echo: Echo) -> None:
    with proxy(echo, Fate.LATE) as between, connect(between) as client:
        assert ask(client, 1) == answer(1)
        wait_until(lambda: len(echo.seen) == 2)
        (first, first_from), (second, second_from) = echo.seen
        assert first == second == 1
        assert first_from != second_from


def test_an_end_of_a_transaction_without_an_epoch_of_its_own_is_never_late(echo: Echo) -> None:
    with proxy(echo, Fate.LATE) as between, connect(between) as client:
        assert ask(client, 1, version=FIRST_OWN_EPOCH - 1) == answer(1)
        assert between.counts == {}


def test_a_quiet_proxy_changes_nothing(echo: Echo) -> None:
    with proxy(echo, Fate.LOST) as between, connect(between) as client:
        between.quiet = True
        assert [ask(client, number) for number in (1, 2)] == [answer(1), answer(2)]


def test_a_client_is_cut_off_while_the_broker_is_away(echo: Echo) -> None:
    with proxy(echo, Fate.LOST) as between:
        echo.server_close()
        with connect(between) as client:
            assert client.recv(1) == b""
