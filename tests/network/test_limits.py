"""Limits on connections and on their time.

They may not be idle for too long, and a request must arrive in time.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from functools import partial

import pytest

from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.keys import ConfigError
from kafkapy.configs.listeners import format_address
from kafkapy.handlers.context import RequestContext
from kafkapy.network.connection_limits import ConnectionLimits
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.produce import ProduceResponse
from kafkapy.protocol.types import ApiKey
from tests.handlers.produce_client import PRODUCE_VERSION, produce_request
from tests.network.harness import Harness, serve_api, serving
from tests.network.raw_client import RawClient, api_versions, correlation_ids, eventually


def is_served(client: RawClient) -> bool:
    try:
        client.send(api_versions())
        return correlation_ids(client, 1) == [7]
    except (ConnectionError, BrokenPipeError):
        return False


def connect(stack: contextlib.ExitStack, harness: Harness, source: str | None = None) -> RawClient:
    return stack.enter_context(RawClient(harness.address, source=source))


def wait_for_a_sweep(harness: Harness) -> None:
    before = harness.server.shared.now
    eventually(lambda: harness.server.shared.now > before, "a sweep")


def test_connections_beyond_max_connections_are_closed_and_their_places_are_given_again() -> None:
    with serving({"max.connections": "5"}) as harness, contextlib.ExitStack() as stack:
        clients = [connect(stack, harness) for _ in range(8)]
        assert [is_served(client) for client in clients] == [True] * 5 + [False] * 3
        clients[0].close()
        eventually(lambda: len(harness.connections) == 4, "the place is free")
        assert is_served(connect(stack, harness))
        assert not is_served(connect(stack, harness))


def test_the_log_says_once_a_minute_that_connections_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    settings = {"max.connections": "1", "request.receive.timeout.ms": "100"}  # 100 sweeps a second
    with serving(settings) as harness, contextlib.ExitStack() as stack:
        assert is_served(connect(stack, harness))
        for _ in range(20):
            with RawClient(harness.address) as client:
                assert not is_served(client)
            wait_for_a_sweep(harness)
        assert len(caplog.messages) == 1
        assert caplog.messages[0].startswith("Refusing connections, first of 127.0.0.1: ")
        harness.server.refusals_seconds = 0.0
        eventually(lambda: len(caplog.messages) > 1, "the minute is over")
        assert caplog.messages[1:] == ["Refused 20 connections in the last minute"]


def test_one_address_has_its_own_limit_and_others_their_overrides() -> None:
    settings = {"max.connections.per.ip": "2", "max.connections.per.ip.overrides": "127.0.0.3:4"}
    with serving(settings) as harness, contextlib.ExitStack() as stack:
        for source, allowed in (("127.0.0.1", 2), ("127.0.0.2", 2), ("127.0.0.3", 4)):
            clients = [connect(stack, harness, source) for _ in range(allowed + 2)]
            assert [is_served(client) for client in clients] == [True] * allowed + [False] * 2


def test_connections_beyond_the_creation_rate_wait_for_their_turn() -> None:
    with serving({"max.connection.creation.rate": "10"}) as harness, contextlib.ExitStack() as stack:
        harness.server.pause_seconds = 3600.0
        started = time.monotonic()
        for _ in range(25):
            assert is_served(connect(stack, harness))
        # 20 in the first burst, then 10 a second.
        assert 0.3 < time.monotonic() - started < 3


def test_a_connection_beyond_the_creation_rate_waits_until_the_rate_allows_it() -> None:
    limits = ConnectionLimits(BrokerConfig({"max.connection.creation.rate": "100"}), 0.0)

    def wait(now: float) -> float:
        of_broker, of_listener = limits.seconds_to_wait("PLAINTEXT", now)
        assert of_listener == 0.0
        return of_broker

    assert [wait(0.0) for _ in range(200)] == [0.0] * 200
    assert wait(0.0) == pytest.approx(0.01)
    assert wait(0.004) == pytest.approx(0.006)
    assert wait(0.0101) == 0.0
    assert wait(0.0101) == pytest.approx(0.0099)


TWO_LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
}


def test_a_listener_has_limits_of_its_own_beside_the_brokers() -> None:
    own = {"max.connection.creation.rate": "1", "max.connections": "2"}
    settings = {f"listener.name.other.{name}": value for name, value in own.items()}
    limits = ConnectionLimits(BrokerConfig({**TWO_LISTENERS, **settings, "max.connections": "3"}), 0.0)
    assert [limits.seconds_to_wait("OTHER", 0.0) for _ in range(3)] == [(0.0, 0.0), (0.0, 0.0), (0.0, 1.0)]
    assert limits.seconds_to_wait("PLAINTEXT", 0.0) == (0.0, 0.0)
    assert [limits.add("OTHER", "here") for _ in range(3)] == [
        None,
        None,
        "listener.name.other.max.connections is reached",
    ]
    assert [limits.add("PLAINTEXT", "here") for _ in range(2)] == [None, "max.connections is reached"]
    limits.remove("OTHER", "here")
    assert limits.add("OTHER", "here") is None


def test_a_listener_beyond_its_rate_keeps_no_other_from_accepting() -> None:
    settings = {**TWO_LISTENERS, "listener.name.other.max.connection.creation.rate": "1"}
    with serving(settings) as harness, contextlib.ExitStack() as stack:
        plain, other = (format_address(each.host, each.port) for each in harness.server.listening)
        for _ in range(2):
            assert is_served(stack.enter_context(RawClient(other)))
        waits = stack.enter_context(RawClient(other))
        waits.send(api_versions())
        eventually(lambda: bool(harness.server._accept_timers), "it accepts nobody")
        assert is_served(stack.enter_context(RawClient(plain)))
        assert correlation_ids(waits, 1) == [7]


def test_a_changed_limit_takes_effect_at_once() -> None:
    with serving() as harness, contextlib.ExitStack() as stack:
        assert is_served(connect(stack, harness))
        harness.config.on_change(harness.server.configure)
        harness.on_loop(lambda: harness.config.set_dynamic({"max.connections": "1"}))
        assert not is_served(connect(stack, harness))


@pytest.mark.parametrize("text", ["127.0.0.1", "127.0.0.1:x", ":5", "a:-1"])
def test_a_wrong_override_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError, match="expected ADDRESS:LIMIT"):
        BrokerConfig({"max.connections.per.ip.overrides": text})


def test_an_idle_connection_is_closed_and_a_busy_one_is_not() -> None:
    with serving({"connections.max.idle.ms": "400"}) as harness, contextlib.ExitStack() as stack:
        idle, busy = connect(stack, harness), connect(stack, harness)
        assert is_served(idle)
        started = time.monotonic()
        while len(harness.connections) == 2:
            assert is_served(busy)
            assert time.monotonic() - started < 5
        assert 0.35 < time.monotonic() - started < 4
        assert idle.is_closed()
        assert is_served(busy)


def test_a_client_that_waits_for_its_answer_is_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving({"connections.max.idle.ms": "200"}) as harness, contextlib.ExitStack() as stack:
        serve_api(monkeypatch, ApiKey.HEARTBEAT, lambda *_: harness.loop.create_future())
        waiting, idle = connect(stack, harness), connect(stack, harness)
        waiting.send(encode_request(HeartbeatRequest(), 4, 1, "raw"))
        assert idle.is_closed()
        eventually(lambda: len(harness.connections) == 1, "only the idle connection is closed")


def test_a_request_that_trickles_in_is_closed_when_it_is_overdue() -> None:
    with serving({"request.receive.timeout.ms": "500"}) as harness, contextlib.ExitStack() as stack:
        slow, other = connect(stack, harness), connect(stack, harness)
        started = time.monotonic()
        with contextlib.suppress(ConnectionError):
            slow.send(b"\x00\x10\x00\x00")
            while time.monotonic() - started < 5:
                slow.send(b"\x00")
                assert all(is_served(other) for _ in range(20))
        assert 0.45 < time.monotonic() - started < 4
        assert slow.is_closed()


def test_requests_that_are_not_complete_share_a_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {
        "queued.max.request.bytes": "2000000",
        "socket.request.max.bytes": "2000000",
        "request.receive.timeout.ms": "1500",
    }
    with serving(settings) as harness, contextlib.ExitStack() as stack:
        hogs = [connect(stack, harness) for _ in range(8)]
        for hog in hogs:
            hog.socket.setblocking(False)
        most = 0
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            for hog in hogs:
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    hog.socket.send((1_900_000).to_bytes(4, "big") + bytes(100_000))
            most = max(most, harness.server.shared.buffered_bytes)
            with contextlib.ExitStack() as short:
                assert is_served(connect(short, harness))
        assert 1_500_000 < most < 8_000_000
        eventually(
            lambda: not any(each.is_incomplete for each in harness.connections), "the offenders are closed"
        )
        eventually(lambda: harness.server.shared.buffered_bytes == 0, "their memory is free")
        assert is_served(connect(stack, harness))


def large_produce(nbytes: int) -> bytes:
    """The bytes of a Produce request that does not fit into the shared receive buffer."""
    return encode_request(produce_request("t", bytes(nbytes)), PRODUCE_VERSION, 7, "raw")


def incomplete(harness: Harness, client: RawClient) -> int:
    """The memory that the incomplete request of a client holds."""
    port = client.socket.getsockname()[1]
    return sum(each.incomplete_bytes for each in harness.connections if each.peer_port == port)


def test_a_request_that_waits_for_memory_is_not_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {
        "queued.max.request.bytes": "1000000",
        "socket.request.max.bytes": "1000000",
        "request.receive.timeout.ms": "300",
        "connections.max.idle.ms": "300",
    }
    with serving(settings) as harness, contextlib.ExitStack() as stack:
        answers: list[asyncio.Future[ProduceResponse]] = []

        def keep(context: RequestContext, _: object) -> asyncio.Future[ProduceResponse]:
            context.connection.keep_frame()
            answers.append(harness.loop.create_future())
            return answers[-1]

        serve_api(monkeypatch, ApiKey.PRODUCE, keep)
        connect(stack, harness).send(large_produce(990_000))
        eventually(lambda: len(answers) == 1, "the handler holds the request")
        waiting = connect(stack, harness)
        request = large_produce(400_000)
        sending = threading.Thread(target=waiting.send, args=(request,))
        sending.start()
        eventually(lambda: any(each.is_incomplete for each in harness.connections), "a part has arrived")
        arrived = harness.server.shared.now
        eventually(lambda: harness.server.shared.now > arrived + 1, "its time is over")
        harness.on_loop(partial(answers[0].set_result, ProduceResponse()))
        sending.join()
        eventually(lambda: len(answers) == 2, "the request has arrived")
        harness.on_loop(partial(answers[1].set_result, ProduceResponse()))
        assert correlation_ids(waiting, 1) == [7]


def test_the_largest_and_slowest_request_makes_room_for_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"queued.max.request.bytes": "4000000", "socket.request.max.bytes": "4000000"}
    with serving(settings) as harness, contextlib.ExitStack() as stack:
        serve_api(monkeypatch, ApiKey.PRODUCE, lambda _, __: ProduceResponse())
        sizes = (200_000, 1_050_000, 1_050_000)
        small, slowest, later = hogs = [connect(stack, harness) for _ in sizes]

        def has_arrived(hog: RawClient, nbytes: int) -> bool:
            return incomplete(harness, hog) >= nbytes

        for hog, nbytes in zip(hogs, sizes, strict=True):
            hog.send((3_900_000).to_bytes(4, "big") + bytes(nbytes))
            eventually(partial(has_arrived, hog, nbytes), "it has arrived")
            wait_for_a_sweep(harness)
        assert harness.server.shared.buffered_bytes > 4_000_000
        for _ in range(3):
            client = connect(stack, harness)
            client.send(large_produce(400_000))
            assert correlation_ids(client, 1) == [7]
        assert slowest.is_closed()
        assert len(harness.connections) == 5
        assert incomplete(harness, small)
        assert incomplete(harness, later)
        assert len(caplog.messages) == 1
        assert "bytes, and other connections wait for memory" in caplog.messages[0]
