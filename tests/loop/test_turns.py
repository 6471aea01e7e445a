"""Long requests are handled in turns, and still answered in order.

They are read and written in threads.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from kafkapy.loop.turns import Steps, Turns, take_turn
from kafkapy.network import in_flight
from kafkapy.protocol.frames import decode_response, encode_request
from kafkapy.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kafkapy.protocol.types import ApiKey
from tests.network.harness import Harness, serve_api, serving
from tests.network.raw_client import RawClient, api_versions, correlation_ids, eventually

VERSION = 12
FEW, MANY = 10, 5_000
"""Topics in a request that is short, and in one that is long."""


@pytest.fixture
def harness() -> Iterator[Harness]:
    with serving() as running:
        yield running


def metadata(correlation_id: int, topics: int) -> bytes:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=f"t{number}") for number in range(topics)])
    return encode_request(request, VERSION, correlation_id, "raw")


def answer(_: Any, request: MetadataRequest) -> MetadataResponse:
    """As many topics as are asked for."""
    return MetadataResponse(topics=[MetadataResponseTopic(name=each.name) for each in request.topics or ()])


class Watched:
    """A function of network/in_flight.py that tells in which threads it ran."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.threads: list[int] = []
        self._function: Callable[..., Any] = getattr(in_flight, name)
        monkeypatch.setattr(in_flight, name, self)

    def __call__(self, *args: Any, **options: Any) -> Any:
        result = self._function(*args, **options)
        self.threads.append(threading.get_ident())
        return result


def test_a_long_request_is_read_and_its_answer_written_in_threads(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_api(monkeypatch, ApiKey.METADATA, answer)
    decoded, encoded = Watched(monkeypatch, "decode_from"), Watched(monkeypatch, "response_parts")
    with RawClient(harness.address) as client:
        for topics in (FEW, MANY):
            client.send(metadata(7, topics))
            _, response = decode_response(ApiKey.METADATA, VERSION, client.receive_frame())
            assert isinstance(response, MetadataResponse)
            assert [each.name for each in response.topics] == [f"t{number}" for number in range(topics)]
    loop_thread = harness.on_loop(threading.get_ident)
    assert [thread == loop_thread for thread in decoded.threads] == [True, False]
    assert [thread == loop_thread for thread in encoded.threads] == [True, False]


def test_long_requests_keep_their_place(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    handled: list[int] = []

    def handle(context: Any, request: MetadataRequest) -> MetadataResponse:
        handled.append(context.correlation_id)
        return answer(context, request)

    serve_api(monkeypatch, ApiKey.METADATA, handle)
    with RawClient(harness.address) as client:
        client.send(metadata(1, MANY) + metadata(2, FEW) + api_versions(3) + metadata(4, MANY))
        assert correlation_ids(client, 4) == [1, 2, 3, 4]
    assert handled == [1, 2, 4]
    eventually(lambda: not harness.connections, "the connection is gone")
    assert harness.server.shared.buffered_bytes == 0


def test_a_long_request_that_is_cut_off_closes_the_connection(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    serve_api(monkeypatch, ApiKey.METADATA, answer)
    whole = metadata(1, MANY)
    with RawClient(harness.address) as client:
        client.send((len(whole) - 24).to_bytes(4, "big") + whole[4:-20])
        assert client.is_closed()
    assert "a request that cannot be read" in caplog.text


def test_an_answer_is_written_though_its_client_has_gone(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled = threading.Event()

    def handle(context: Any, request: MetadataRequest) -> MetadataResponse:
        handled.set()
        return answer(context, request)

    serve_api(monkeypatch, ApiKey.METADATA, handle, abandon=True)
    with RawClient(harness.address) as client:
        client.send(metadata(1, MANY))
        assert handled.wait(10)
    eventually(lambda: not harness.connections, "the connection is gone")
    with RawClient(harness.address) as other:
        other.send(metadata(2, MANY))
        assert correlation_ids(other, 1) == [2]


def one_step_a_turn() -> Turns:
    return Turns(asyncio.get_running_loop(), seconds=0)


async def test_long_work_takes_turns_with_other_long_work() -> None:
    turns, order = one_step_a_turn(), []

    def work(name: str, steps: int) -> Steps[str]:
        for _ in range(steps):
            order.append(name)
            yield
        return name

    results = await asyncio.gather(turns.finish(work("a", 3)), turns.finish(work("b", 2)))
    assert [*results] == ["a", "b"]
    assert "".join(order) == "ababa"


async def test_there_is_one_turn_between_two_looks_at_the_sockets() -> None:
    turns, done, seen = one_step_a_turn(), 0, []

    def work() -> Steps[None]:
        nonlocal done
        for _ in range(5):
            done += 1
            yield

    async def look() -> None:
        while done < 50:
            seen.append(done)
            await asyncio.sleep(0)

    await asyncio.gather(*(turns.finish(work()) for _ in range(10)), look())
    after_the_first = seen[seen.index(10) :]
    assert max(b - a for a, b in pairwise(after_the_first)) <= 1


async def test_work_that_is_given_up_is_closed_and_the_others_go_on() -> None:
    turns, ended = one_step_a_turn(), []

    def work(name: str) -> Steps[str]:
        try:
            for _ in range(100):
                yield
        finally:
            ended.append(name)
        return name

    first, second = (asyncio.ensure_future(turns.finish(work(name))) for name in "ab")
    await asyncio.sleep(0)
    first.cancel()
    assert await second == "b"
    assert ended == ["a", "b"]


def test_short_work_is_done_at_once() -> None:
    def work() -> Steps[int]:
        yield
        return 5

    end = take_turn(work())
    assert end == (5,)


def test_work_that_ended_leaves_no_cycle_to_the_garbage_collector() -> None:
    class Request:
        pass

    seen: list[weakref.ref[Request]] = []

    def work() -> Steps[Request]:
        request = Request()
        seen.append(weakref.ref(request))
        yield
        return request

    def serve() -> None:
        end = take_turn(work())
        assert end is not None

    gc.disable()
    try:
        serve()
        assert seen[0]() is None
    finally:
        gc.enable()
