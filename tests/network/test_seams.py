"""The seams for logins, quotas and metrics: a gate, a limit, the end of each request."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from kafkapy.handlers import Endpoint
from kafkapy.handlers.dispatch import Dispatcher
from kafkapy.network.answers import Pipelined
from kafkapy.network.connection import Connection
from kafkapy.network.request_metrics import RequestMetrics
from kafkapy.network.requester import Requester
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.frames import RequestHeader, encode_request
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkapy.protocol.types import ApiKey
from tests.network.harness import Harness, serve_api, serving
from tests.network.raw_client import RawClient, api_versions, correlation_ids, eventually


def connection_of(harness: Harness, client: RawClient) -> Connection:
    port = client.socket.getsockname()[1]
    eventually(lambda: any(each.peer_port == port for each in harness.connections), "it is accepted")
    return next(each for each in harness.connections if each.peer_port == port)


def test_the_first_gate_may_pass_one_connection_and_not_another(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[Connection] = []

    class Gate(Dispatcher):
        def endpoint(self, connection: Requester, header: RequestHeader) -> Endpoint | None:
            return super().endpoint(connection, header) if connection in passes else None

    with (
        serving(make_dispatcher=Gate) as harness,
        RawClient(harness.address) as known,
        RawClient(harness.address) as stranger,
    ):
        passes.append(connection_of(harness, known))
        request = encode_request(HeartbeatRequest(), 4, 7, "raw")
        serve_api(monkeypatch, ApiKey.HEARTBEAT, lambda _, __: HeartbeatResponse())
        known.send(request)
        assert correlation_ids(known, 1) == [7]
        stranger.send(request)
        assert stranger.is_closed()


def test_each_connection_has_its_own_frame_limit() -> None:
    with serving() as harness, RawClient(harness.address) as small, RawClient(harness.address) as other:
        connection_of(harness, small).max_frame_bytes = 8
        small.send(api_versions())
        assert small.is_closed()
        other.send(api_versions())
        assert correlation_ids(other, 1) == [7]


def test_connections_know_the_protocol_of_their_listener() -> None:
    with serving() as harness, RawClient(harness.address) as client:
        assert connection_of(harness, client).listener.protocol == "PLAINTEXT"


def test_every_request_ends_once_with_its_size_its_time_and_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[tuple[RequestHeader, Any]] = []

    class Observed(RequestMetrics):
        def ended(self, connection: Any, header: RequestHeader, response: Any, sending_at: float) -> None:
            ended.append((header, response))
            super().ended(connection, header, response, sending_at)

    async def later(response: HeartbeatResponse | None) -> HeartbeatResponse | None:
        await asyncio.sleep(0)
        return response

    def handle(context: Any, _: object) -> Any:
        match context.client_id:
            case "at once":
                return HeartbeatResponse()
            case "later":
                return later(HeartbeatResponse())
            case "pipelined":
                return Pipelined(later(HeartbeatResponse()))
            case "nothing":
                return None
            case "nothing later":
                return later(None)
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    serve_api(monkeypatch, ApiKey.HEARTBEAT, handle)
    names = ("at once", "nothing", "later", "nothing later", "pipelined", "failing")
    requests = [encode_request(HeartbeatRequest(), 4, 7, name) for name in names]
    with serving() as harness, RawClient(harness.address) as client:
        harness.server.shared.metrics = Observed()
        started = time.monotonic()
        client.send(b"".join(requests))
        assert correlation_ids(client, 4) == [7] * 4
        stopped = time.monotonic()
    assert [header.client_id for header, _ in ended] == list(names)
    assert [header.nbytes + 4 for header, _ in ended] == [len(request) for request in requests]
    assert all(started <= header.arrived_at <= stopped for header, _ in ended)
    assert [response is None for _, response in ended] == [name.startswith("nothing") for name in names]
    assert ended[-1][1].error_code == ErrorCode.UNKNOWN_MEMBER_ID
