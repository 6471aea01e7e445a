"""The log of slow requests: which are logged, with what, and how many."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

import kafkapy
from kafkapy.network.request_metrics import Durations
from kafkapy.network.requester import Sender
from kafkapy.network.slow_requests import MOST, SECONDS, SlowRequests
from kafkapy.protocol.frames import RequestHeader
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.types import ApiKey
from tests.network.raw_client import RawClient

CONNECTION = cast("Sender", SimpleNamespace(principal='User:"a"\n', peer_host="10.0.0.1"))


def durations(local: float = 0.0, remote: float = 0.0) -> Durations:
    return Durations(0.001, local, remote, 0.002, 0.003, 0.006 + local + remote)


def end(slow: SlowRequests, phases: Durations, now: float = 100.0, key: int = ApiKey.PRODUCE) -> None:
    slow.ended(CONNECTION, RequestHeader(key, 9, 7, "c", nbytes=70), phases, now)


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "kafkapy.request"]


def test_a_line_says_where_the_time_went(caplog: pytest.LogCaptureFixture) -> None:
    end(SlowRequests(0.5), durations(local=0.4, remote=0.1))
    (line,) = messages(caplog)
    assert line == (
        'PRODUCE v9 of "User:\\"a\\"\\n" from 10.0.0.1 (client id "c", 70 bytes) took 506.0 ms: '
        "request queue 1.0, local 400.0, remote 100.0, response queue 2.0, response send 3.0"
    )
    fields: dict[str, Any] = caplog.records[0].fields  # type: ignore[attr-defined]
    assert (fields["api"], fields["local_ms"], fields["total_ms"]) == ("PRODUCE", 400.0, 506.0)


def test_what_is_fast_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    end(SlowRequests(0.5), durations(local=0.4))
    assert messages(caplog) == []


@pytest.mark.parametrize("key", [ApiKey.FETCH, ApiKey.JOIN_GROUP])
def test_a_request_that_waits_as_it_asked_is_not_slow(caplog: pytest.LogCaptureFixture, key: ApiKey) -> None:
    end(SlowRequests(0.5), durations(remote=30), key=key)
    assert messages(caplog) == []
    end(SlowRequests(0.5), durations(local=0.6, remote=30), key=key)
    assert len(messages(caplog)) == 1


def test_the_lines_of_a_minute_have_a_bound(caplog: pytest.LogCaptureFixture) -> None:
    slow = SlowRequests(0.5)
    for _ in range(MOST + 70):
        end(slow, durations(local=1))
    assert len(messages(caplog)) == MOST
    end(slow, durations(local=1), now=100 + SECONDS)
    assert messages(caplog)[MOST] == "70 other slow requests were not logged"
    assert len(messages(caplog)) == MOST + 2


@pytest.mark.parametrize("limit", [1, None])
def test_a_broker_logs_them_if_that_is_set(caplog: pytest.LogCaptureFixture, limit: int | None) -> None:
    config = {} if limit is None else {"slow.request.log.ms": limit}
    with kafkapy.Broker(config=config) as broker, RawClient(broker.bootstrap_servers) as client:
        broker.faults.metadata().delay(0.01)
        client.ask(MetadataRequest(topics=[]), 9)
    found = [line for line in messages(caplog) if line.startswith("METADATA v9")]
    assert len(found) == (0 if limit is None else 1)
