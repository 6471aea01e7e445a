"""Clients that send many requests at once share the loop, and do not keep others waiting."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from kafkapy.handlers.context import RequestContext
from kafkapy.network.rounds import ROUND_SECONDS, Rounds
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkapy.protocol.types import ApiKey
from tests.network.harness import serve_api, serving
from tests.network.raw_client import RawClient, correlation_ids, eventually

CLIENTS = 50
REQUESTS = 10


def heartbeats(count: int, client_id: str) -> bytes:
    return b"".join(encode_request(HeartbeatRequest(), 4, number, client_id) for number in range(count))


def test_a_client_with_one_request_does_not_wait_for_those_with_many(monkeypatch: pytest.MonkeyPatch) -> None:
    handled: list[str | None] = []

    def work(context: RequestContext, _: object) -> HeartbeatResponse:
        handled.append(context.client_id)
        started = time.thread_time()
        while time.thread_time() - started < 0.001:
            pass
        return HeartbeatResponse()

    serve_api(monkeypatch, ApiKey.HEARTBEAT, work)
    with serving() as harness, contextlib.ExitStack() as stack:
        many = [stack.enter_context(RawClient(harness.address)) for _ in range(CLIENTS)]
        one = stack.enter_context(RawClient(harness.address))
        eventually(lambda: len(harness.connections) == CLIENTS + 1, "all are connected")
        stopped, go_on = threading.Event(), threading.Event()

        def hold() -> None:
            stopped.set()
            go_on.wait(30)

        harness.loop.call_soon_threadsafe(hold)
        assert stopped.wait(30)
        for client in many:
            client.send(heartbeats(REQUESTS, "many"))
        one.send(heartbeats(1, "one"))
        go_on.set()
        assert correlation_ids(one, 1) == [0]
        assert handled.index("one") < CLIENTS / 2
        for client in many:
            assert correlation_ids(client, REQUESTS) == list(range(REQUESTS))


class FakeLoop:
    """A loop whose callbacks the test runs."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)

    def run_once(self) -> None:
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback()


class Pipelining:
    """A connection whose requests never end; each takes `seconds`."""

    def __init__(self, rounds: Rounds, seconds: float, turns: list[Pipelining]) -> None:
        self._rounds, self._seconds, self._turns = rounds, seconds, turns

    def take_turn(self, seconds: float) -> None:
        self._turns.append(self)
        self._rounds.spend(max(seconds, self._seconds))
        self._rounds.wait(self)


def waiting(seconds: float, count: int) -> tuple[FakeLoop, list[Pipelining], list[Pipelining]]:
    """Connections that wait for turns, and those that have had turns."""
    loop, turns = FakeLoop(), cast("list[Pipelining]", [])
    rounds = Rounds(cast("Any", loop))
    connections = [Pipelining(rounds, seconds, turns) for _ in range(count)]
    for connection in connections:
        rounds.wait(connection)
    return loop, connections, turns


def test_a_round_is_divided_among_the_connections_that_wait() -> None:
    loop, connections, turns = waiting(0.0, 10)
    for _ in range(3):
        loop.run_once()
    assert turns == connections * 3


def test_who_got_no_turn_in_a_round_comes_first_in_the_next() -> None:
    loop, connections, turns = waiting(ROUND_SECONDS / 4, 10)
    loop.run_once()
    assert turns == connections[:4]
    loop.run_once()
    assert turns == connections[:8]
    loop.run_once()
    assert turns == connections + connections[:2]


def test_nothing_is_scheduled_while_nobody_waits() -> None:
    loop = FakeLoop()
    rounds = Rounds(cast("Any", loop))
    rounds.spend(ROUND_SECONDS / 2)
    assert not loop.callbacks
    rounds.spend(ROUND_SECONDS)
    assert rounds.left < 0
    loop.run_once()
    assert rounds.left == ROUND_SECONDS
    assert not loop.callbacks
