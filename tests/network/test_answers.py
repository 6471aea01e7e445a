"""Answers: their order, waiting ones, failing ones, and clients that do not read them."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkapy.network import in_flight
from kafkapy.network.answers import Pipelined
from kafkapy.network.in_flight import MAX_PIPELINED
from kafkapy.protocol.codec import encode
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.frames import decode_response, encode_request, response_frame
from kafkapy.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafkapy.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.types import ApiKey
from kafkapy.storage.disk.files import FileSlice, FileSystem
from tests.calls import calls_of
from tests.network.harness import Harness, serve_api, serving
from tests.network.raw_client import RawClient, api_versions, correlation_ids, eventually

Handle = Callable[[Any, Any], Any]


@pytest.fixture
def harness() -> Iterator[Harness]:
    with serving() as running:
        yield running


class Waiting:
    """A handler whose answers come when the test says so."""

    def __init__(self, harness: Harness, *, pipelined: bool = False) -> None:
        self.futures: list[asyncio.Future[Any]] = []
        self._harness = harness
        self._pipelined = pipelined

    def handle(self, _: Any, __: Any) -> Any:
        future = self._harness.loop.create_future()
        self.futures.append(future)
        return Pipelined(future) if self._pipelined else future

    def answer(self, index: int, response: Any = None) -> None:
        self._harness.on_loop(
            lambda: self.futures[index].set_result(response or HeartbeatResponse(throttle_time_ms=index))
        )


def heartbeat(correlation_id: int) -> bytes:
    return encode_request(HeartbeatRequest(), 4, correlation_id, "raw")


def has_no_answer(client: RawClient) -> bool:
    client.socket.setblocking(False)
    try:
        client.socket.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    finally:
        client.socket.settimeout(10)
    return False


def test_a_request_that_waits_holds_back_the_next_one(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Waiting(harness)
    serve_api(monkeypatch, ApiKey.HEARTBEAT, waiting.handle)
    with RawClient(harness.address) as client:
        client.send(heartbeat(1) + api_versions(2) + heartbeat(3))
        eventually(lambda: len(waiting.futures) == 1, "the first request is handled")
        with RawClient(harness.address) as other:
            other.send(api_versions(9))
            assert correlation_ids(other, 1) == [9]
        assert len(waiting.futures) == 1
        assert has_no_answer(client)
        waiting.answer(0)
        assert correlation_ids(client, 2) == [1, 2]
        eventually(lambda: len(waiting.futures) == 2, "the third request is handled")
        waiting.answer(1)
        assert correlation_ids(client, 1) == [3]


def test_pipelined_answers_keep_the_order_of_their_requests(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Waiting(harness, pipelined=True)
    serve_api(monkeypatch, ApiKey.HEARTBEAT, waiting.handle)
    with RawClient(harness.address) as client:
        client.send(heartbeat(0) + heartbeat(1) + api_versions(2) + heartbeat(3))
        eventually(lambda: len(waiting.futures) == 3, "all requests are handled")
        for index in (2, 1):
            waiting.answer(index)
        assert has_no_answer(client)
        waiting.answer(0)
        assert correlation_ids(client, 4) == [0, 1, 2, 3]


@pytest.mark.parametrize("waits", [False, True])
def test_an_answer_that_is_encoded_already_keeps_the_order_too(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    waiting, encoded = Waiting(harness, pipelined=True), Waiting(harness)

    def handle(context: Any, request: Any) -> Any:
        if not context.correlation_id:
            return waiting.handle(context, request)
        body = encode(HeartbeatResponse(), 4)
        parts = [response_frame(ApiKey.HEARTBEAT, 4, context.correlation_id, body)]
        if not waits:
            return parts
        future = encoded.handle(context, request)
        future.set_result(parts)
        return future

    serve_api(monkeypatch, ApiKey.HEARTBEAT, handle)
    with RawClient(harness.address) as client:
        client.send(heartbeat(3))
        assert correlation_ids(client, 1) == [3]
        client.send(heartbeat(0) + heartbeat(1) + heartbeat(2))
        eventually(lambda: len(waiting.futures) == 1, "the first request is handled")
        assert has_no_answer(client)
        waiting.answer(0)
        assert correlation_ids(client, 3) == [0, 1, 2]


def test_a_request_may_be_pipelined_after_a_first_part(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Waiting(harness), Waiting(harness)
    serve_api(monkeypatch, ApiKey.HEARTBEAT, first.handle)
    with RawClient(harness.address) as client:
        client.send(heartbeat(1) + heartbeat(2))
        eventually(lambda: len(first.futures) == 1, "the first request is handled")
        committed = harness.on_loop(lambda: Pipelined(second.handle(None, None)))
        first.answer(0, committed)
        eventually(
            lambda: len(first.futures) == 2, "the second request is handled before the first is answered"
        )
        first.answer(1)
        second.answer(0)
        assert correlation_ids(client, 2) == [1, 2]


@pytest.mark.parametrize("comes", [True, False], ids=["as expected", "another"])
def test_an_expected_answer_is_encoded_while_its_request_waits(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, comes: bool
) -> None:
    calls = calls_of(monkeypatch, in_flight, "response_parts")

    def encoded() -> list[int]:
        return [call.arguments[3].throttle_time_ms for call in calls]

    def handle(context: Any, request: HeartbeatRequest) -> Pipelined:
        return Pipelined(waiting.handle(context, request), lambda: expected)

    waiting, expected = Waiting(harness), HeartbeatResponse(throttle_time_ms=7)
    serve_api(monkeypatch, ApiKey.HEARTBEAT, handle)
    with RawClient(harness.address) as client:
        client.send(heartbeat(1))
        eventually(lambda: encoded() == [7], "the expected answer is encoded")
        assert has_no_answer(client)
        waiting.answer(0, expected if comes else HeartbeatResponse(throttle_time_ms=8))
        _, response = decode_response(ApiKey.HEARTBEAT, 4, client.receive_frame())
    assert response == HeartbeatResponse(throttle_time_ms=7 if comes else 8)
    assert encoded() == ([7] if comes else [7, 8])


def test_pipelined_requests_are_bounded(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting(harness, pipelined=True)
    serve_api(monkeypatch, ApiKey.HEARTBEAT, waiting.handle)
    total = MAX_PIPELINED + 50
    with RawClient(harness.address) as client:
        client.send(b"".join(heartbeat(number) for number in range(total)))
        eventually(lambda: len(waiting.futures) == MAX_PIPELINED, "as many as allowed are handled")
        with RawClient(harness.address) as other:
            other.send(api_versions(9))
            assert correlation_ids(other, 1) == [9]
        assert len(waiting.futures) == MAX_PIPELINED
        for index in range(MAX_PIPELINED):
            waiting.answer(index)
        eventually(lambda: len(waiting.futures) == total, "the others are handled")
        for index in range(MAX_PIPELINED, total):
            waiting.answer(index)
        assert correlation_ids(client, total) == list(range(total))


def test_a_request_without_an_answer_gets_none(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    serve_api(monkeypatch, ApiKey.HEARTBEAT, lambda *_: None)
    with RawClient(harness.address) as client:
        client.send(heartbeat(1) + api_versions(2))
        assert correlation_ids(client, 1) == [2]


async def fail_later() -> None:
    await asyncio.sleep(0)
    raise ZeroDivisionError("the handler's own mistake")


def fail_now() -> None:
    raise ZeroDivisionError("the handler's own mistake")


@pytest.mark.parametrize("fail", [fail_now, fail_later])
def test_a_handler_that_fails_answers_unknown_server_error_and_is_logged(
    harness: Harness,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fail: Callable[[], Any],
) -> None:
    serve_api(monkeypatch, ApiKey.HEARTBEAT, lambda *_: fail())
    with RawClient(harness.address) as client:
        client.send(heartbeat(1) + api_versions(2))
        _, response = decode_response(ApiKey.HEARTBEAT, 4, client.receive_frame())
        assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR  # type: ignore[attr-defined]
        assert correlation_ids(client, 1) == [2]
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ZeroDivisionError]


def test_a_kafka_error_that_a_handler_lets_out_is_answered(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def handle(*_: Any) -> None:
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    serve_api(monkeypatch, ApiKey.HEARTBEAT, handle)
    with RawClient(harness.address) as client:
        client.send(heartbeat(1))
        _, response = decode_response(ApiKey.HEARTBEAT, 4, client.receive_frame())
        assert response.error_code == ErrorCode.NOT_COORDINATOR  # type: ignore[attr-defined]


def test_a_failing_request_whose_answer_has_no_place_for_an_error_closes_the_connection(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_api(monkeypatch, ApiKey.METADATA, lambda *_: fail_now())
    with RawClient(harness.address) as client:
        client.send(encode_request(MetadataRequest(), 1, 1, "raw"))
        assert client.is_closed()


@pytest.mark.parametrize("abandon", [True, False])
def test_only_a_request_that_changes_nothing_ends_when_its_client_goes_away(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, abandon: bool
) -> None:
    waiting = Waiting(harness)
    serve_api(monkeypatch, ApiKey.HEARTBEAT, waiting.handle, abandon=abandon)
    with RawClient(harness.address) as client:
        client.send(heartbeat(1))
        eventually(lambda: len(waiting.futures) == 1, "the request is handled")
    if abandon:
        eventually(waiting.futures[0].cancelled, "its future is cancelled")
    else:
        with RawClient(harness.address) as other:
            other.send(api_versions())
            correlation_ids(other, 1)
        assert not waiting.futures[0].cancelled()
        waiting.answer(0)
    eventually(lambda: not harness.connections, "the connection is gone")


def test_a_client_that_resets_its_connection_is_forgotten(harness: Harness) -> None:
    client = RawClient(harness.address)
    client.send(api_versions())
    correlation_ids(client, 1)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    eventually(lambda: not harness.connections, "the connection is gone")


class SliceHandler:
    """Answers every Fetch with slices of one file."""

    def __init__(self, directory: Path, nbytes: int) -> None:
        self.path = directory / "records"
        self.path.write_bytes(os.urandom(nbytes))
        self.content = self.path.read_bytes()
        self.file = FileSystem().open(str(self.path))
        self.slices: list[FileSlice] = []
        self.calls = 0

    def handle(self, _: Any, request: FetchRequest) -> FetchResponse:
        self.calls += 1
        third = len(self.content) // 3
        parts = [(0, third), (third, 0), (third, len(self.content) - third)]
        slices = [FileSlice(self.file, position, nbytes) for position, nbytes in parts]
        self.slices += slices
        partitions = [PartitionData(partition_index=n, records=part) for n, part in enumerate(slices)]
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])

    def all_released(self) -> bool:
        return all(part._released for part in self.slices)


def fetch(correlation_id: int) -> bytes:
    return encode_request(FetchRequest(), 12, correlation_id, "raw")


def fetched(client: RawClient) -> bytes:
    _, response = decode_response(ApiKey.FETCH, 12, client.receive_frame())
    assert isinstance(response, FetchResponse)
    parts = [part.records for part in response.responses[0].partitions]
    return b"".join(part for part in parts if isinstance(part, bytes | memoryview))


@pytest.mark.parametrize("nbytes", [0, 5, 100_000, 20_000_000])
def test_file_slices_arrive_whole_and_are_released(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, nbytes: int
) -> None:
    source = SliceHandler(tmp_path, nbytes)
    serve_api(monkeypatch, ApiKey.FETCH, source.handle)
    with RawClient(harness.address) as client:
        client.send(fetch(1) + fetch(2) + api_versions(3))
        for _ in range(2):
            assert fetched(client) == source.content
        assert correlation_ids(client, 1) == [3]
    eventually(source.all_released, "the slices are released")


def test_a_client_that_does_not_read_is_not_served_further_and_releases_its_slices_when_it_goes(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = SliceHandler(tmp_path, 30_000_000)
    serve_api(monkeypatch, ApiKey.FETCH, source.handle)
    with RawClient(harness.address) as client:
        client.send(b"".join(fetch(number) for number in range(50)))
        eventually(lambda: source.calls == 1, "the first request is handled")
        with RawClient(harness.address) as other:
            other.send(api_versions())
            correlation_ids(other, 1)
        assert source.calls == 1
        assert not source.all_released()
    eventually(source.all_released, "the slices are released")


def test_a_log_file_that_lost_its_end_closes_the_connection(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = SliceHandler(tmp_path, 300_000)
    serve_api(monkeypatch, ApiKey.FETCH, source.handle)
    os.truncate(source.path, 1000)
    with RawClient(harness.address) as client:
        client.send(fetch(1))
        assert client.is_closed()
    eventually(source.all_released, "the slices are released")


def test_what_a_long_answer_holds_is_not_freed_on_the_event_loop(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    freed_by: list[int] = []

    class Group(DescribedGroup):
        def __del__(self) -> None:
            freed_by.append(threading.get_ident())

    def handle(_: Any, __: Any) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(groups=[Group(group_id=str(number)) for number in range(20_000)])

    serve_api(monkeypatch, ApiKey.DESCRIBE_GROUPS, handle)
    with RawClient(harness.address) as client:
        answer = client.ask(DescribeGroupsRequest(), 5)
        assert [group.group_id for group in answer.groups] == [str(number) for number in range(20_000)]
        eventually(lambda: len(freed_by) == 20_000, "all is freed")
    assert harness.on_loop(threading.get_ident) not in freed_by
