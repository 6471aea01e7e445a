"""Frames: how requests are cut out of a stream of bytes."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from kafkapy.loop.event_loop import new_event_loop
from kafkapy.network.answers import Pipelined
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import decode_response, encode_request
from kafkapy.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafkapy.protocol.types import ApiKey
from tests.network.harness import Harness, serve_api, serving
from tests.network.raw_client import RawClient, api_versions, correlation_ids, eventually

PRODUCE_VERSION = 9


@pytest.fixture(params=[new_event_loop, asyncio.new_event_loop], ids=["default loop", "asyncio's loop"])
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    with serving(make_loop=request.param) as running:
        yield running


def produce(records: bytes, correlation_id: int) -> bytes:
    partition = PartitionProduceData(index=0, records=records)
    topic = TopicProduceData(name="t", partition_data=[partition])
    return encode_request(ProduceRequest(acks=1, topic_data=[topic]), PRODUCE_VERSION, correlation_id, "raw")


def checksum_answer(records: Any) -> ProduceResponse:
    """An answer whose base offset is the checksum of the records."""
    partition = PartitionProduceResponse(index=0, base_offset=zlib.crc32(records))
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[partition])])


def answered_checksum(client: RawClient) -> tuple[int, int]:
    correlation_id, response = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, client.receive_frame())
    assert isinstance(response, ProduceResponse)
    return correlation_id, response.responses[0].partition_responses[0].base_offset


def handle_at_once(_: Any, request: ProduceRequest) -> ProduceResponse:
    return checksum_answer(request.topic_data[0].partition_data[0].records)


def test_a_request_split_at_every_byte_is_answered(harness: Harness) -> None:
    request = api_versions()
    with RawClient(harness.address) as client:
        for cut in range(1, len(request)):
            client.send(request[:cut])
            client.send(request[cut:])
            assert correlation_ids(client, 1) == [7]


def test_a_request_that_comes_byte_by_byte_is_answered(harness: Harness) -> None:
    with RawClient(harness.address) as client:
        for byte in api_versions():
            client.send(bytes([byte]))
        assert correlation_ids(client, 1) == [7]


def test_pipelined_requests_are_answered_in_order(harness: Harness) -> None:
    with RawClient(harness.address) as client:
        client.send(b"".join(api_versions(number) for number in range(3000)))
        assert correlation_ids(client, 3000) == list(range(3000))


def test_a_client_that_half_closes_gets_its_answers(harness: Harness) -> None:
    with RawClient(harness.address) as client:
        client.send(b"".join(api_versions(number) for number in range(500)))
        client.socket.shutdown(socket.SHUT_WR)
        assert correlation_ids(client, 500) == list(range(500))
        assert client.is_closed()
    eventually(lambda: not harness.connections, "the connection is gone")


def test_requests_of_all_sizes_in_pieces_of_all_sizes_arrive_whole(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_api(monkeypatch, ApiKey.PRODUCE, handle_at_once)
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    payloads = [rng.randbytes(int(10 ** rng.uniform(0, 6.3))) for _ in range(60)]
    stream = b"".join(produce(payload, number) for number, payload in enumerate(payloads))
    with RawClient(harness.address) as client:
        position = 0
        while position < len(stream):
            piece = int(10 ** rng.uniform(0, 6))
            client.send(stream[position : position + piece])
            position += piece
        for number, payload in enumerate(payloads):
            assert answered_checksum(client) == (number, zlib.crc32(payload))


def test_the_bytes_that_a_handler_keeps_stay_untouched(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[memoryview] = []
    waiting: list[Any] = []

    def handle(context: Any, request: ProduceRequest) -> Pipelined:
        context.connection.keep_frame()
        records = request.topic_data[0].partition_data[0].records
        assert isinstance(records, memoryview)
        kept.append(records)
        waiting.append(harness.loop.create_future())
        return Pipelined(waiting[-1])

    def answer_all() -> None:
        for future, records in zip(waiting, kept, strict=True):
            future.set_result(checksum_answer(records))

    serve_api(monkeypatch, ApiKey.PRODUCE, handle)
    payloads = [random.Random(size).randbytes(size) for size in (10, 1000, 300_000, 20, 2_000_000, 70_000, 5)]
    with RawClient(harness.address) as client:
        client.send(b"".join(produce(payload, number) for number, payload in enumerate(payloads)))
        eventually(lambda: len(kept) == len(payloads), "all requests are handled")
        assert harness.server.shared.buffered_bytes >= sum(len(payload) for payload in payloads)
        harness.on_loop(answer_all)
        for number, payload in enumerate(payloads):
            assert answered_checksum(client) == (number, zlib.crc32(payload))
    eventually(lambda: harness.server.shared.buffered_bytes == 0, "the memory is free")


def test_a_handler_may_change_the_records_where_they_lie(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def handle(_: Any, request: ProduceRequest) -> ProduceResponse:
        records = request.topic_data[0].partition_data[0].records
        assert isinstance(records, memoryview)
        records[0:4] = b"new!"
        return checksum_answer(records)

    serve_api(monkeypatch, ApiKey.PRODUCE, handle)
    with RawClient(harness.address) as client:
        client.send(produce(b"old, and a rest", 1) + produce(b"old as well", 2))
        assert answered_checksum(client) == (1, zlib.crc32(b"new! and a rest"))
        assert answered_checksum(client) == (2, zlib.crc32(b"new!as well"))


def test_a_connection_without_a_started_request_owns_no_buffer(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_api(monkeypatch, ApiKey.PRODUCE, handle_at_once)
    with RawClient(harness.address) as client:
        client.send(produce(bytes(3_000_000), 1))
        answered_checksum(client)
        eventually(lambda: harness.server.shared.buffered_bytes == 0, "the buffer is let go")
        client.send(produce(bytes(100), 2))
        assert answered_checksum(client)[0] == 2


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", id="an HTTP request"),
        pytest.param(bytes.fromhex("16030100a5010000a10303") + bytes(160), id="a TLS hello"),
        pytest.param(struct.pack(">i", -1), id="a negative size"),
        pytest.param(struct.pack(">i", 104_857_601), id="a size above socket.request.max.bytes"),
        pytest.param(struct.pack(">i", 0), id="an empty frame"),
        pytest.param(struct.pack(">ihh", 4, 18, 0), id="a header that is cut off"),
        pytest.param(struct.pack(">ihhih", 10, 9999, 0, 1, -1), id="an API key that Kafka does not have"),
        pytest.param(struct.pack(">ihhih", 10, 27, 0, 1, -1), id="an API that is not supported"),
        pytest.param(struct.pack(">ihhih", 10, 18, -1, 1, -1) + bytes(3), id="a negative version"),
        pytest.param(api_versions()[:-1] + b"\xff", id="a body that ends in the middle"),
        pytest.param(bytes(range(256)) * 16, id="garbage"),
    ],
)
def test_a_client_that_does_not_speak_kafka_is_closed_and_others_are_served(
    harness: Harness, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with RawClient(harness.address) as client, RawClient(harness.address) as other:
        client.send(data)
        client.socket.shutdown(socket.SHUT_WR)
        assert client.is_closed()
        other.send(api_versions())
        assert correlation_ids(other, 1) == [7]
    assert all(record.exc_info is None and "\n" not in record.getMessage() for record in caplog.records)


def test_an_api_versions_request_that_is_too_new_is_answered_in_version_0(harness: Harness) -> None:
    with RawClient(harness.address) as client:
        client.send(struct.pack(">ihhihb", 11, 18, 99, 5, -1, 0))
        correlation_id, response = decode_response(ApiKey.API_VERSIONS, 0, client.receive_frame())
        assert correlation_id == 5
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION  # type: ignore[attr-defined]
        assert ApiKey.API_VERSIONS in {api.api_key for api in response.api_keys}  # type: ignore[attr-defined]
        client.send(api_versions(6))
        assert correlation_ids(client, 1) == [6]
