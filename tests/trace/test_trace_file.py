"""A written trace is read again as it was, whatever happened to its end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkapy.errors import UserError
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.trace.exchange import Exchange
from kafkapy.trace.trace_file import TraceWriter, exchange_in, read_trace

REQUEST = encode_request(HeartbeatRequest(group_id="g"), 0, 7, "app")[4:]
ANSWERED = Exchange(1, "client:1", "broker:2", 10.5, REQUEST, 10.75, b"\0\0\0\7\0\x1b")
EVENT = Exchange(2, "client:1", "broker:2", 11.0, note="closed")


def written(path: Path, *exchanges: Exchange) -> Path:
    with TraceWriter(path) as writer:
        for exchange in exchanges:
            writer.write(exchange)
    return path


def fields(exchange: Exchange) -> tuple[object, ...]:
    return tuple(getattr(exchange, name) for name in Exchange.__dataclass_fields__)


def test_exchanges_and_events_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = written(tmp_path / "trace", ANSWERED, EVENT)
    assert list(map(fields, read_trace(path))) == [fields(ANSWERED), fields(EVENT)]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_second_run_is_appended_and_its_connections_are_other_ones(tmp_path: Path) -> None:
    path = written(tmp_path / "trace", ANSWERED, EVENT)
    written(path, ANSWERED)
    assert [exchange.connection for exchange in read_trace(path)] == [1, 2, 3]


def test_a_torn_last_line_is_left_out_and_the_next_run_begins_a_line(tmp_path: Path) -> None:
    path = written(tmp_path / "trace", ANSWERED, EVENT)
    path.write_bytes(path.read_bytes()[:-20])
    assert [exchange.connection for exchange in read_trace(path)] == [1]
    written(path, ANSWERED)
    assert [exchange.connection for exchange in read_trace(path)] == [1, 2]


@pytest.mark.parametrize("content", ["some text\n", '{"connection": 1}\n'])
def test_another_file_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(content)
    with pytest.raises(UserError, match="is no trace"):
        list(read_trace(path))
    with pytest.raises(UserError, match="is no trace"):
        TraceWriter(path)
    assert path.read_text() == content


def test_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(json.dumps({"kafkapy_trace": 2}) + "\n")
    with pytest.raises(UserError, match="version 2 of traces; this release reads 1"):
        list(read_trace(path))


@pytest.mark.parametrize(
    "damage",
    [
        "[" * 100_000,
        '"connection"',
        {"connection": {}},
        {"client": 5},
        {"sent": "now"},
        {"sent": float("nan")},
        {"sent": 1e300},
        {"request": 5},
        {"request": "A"},
        {"answered": None},
        {"note": 7},
    ],
)
def test_a_damaged_line_is_left_out(tmp_path: Path, damage: str | dict[str, object]) -> None:
    path = written(tmp_path / "trace", ANSWERED, EVENT)
    line = path.read_text().splitlines()[1]
    with path.open("a") as file:
        file.write((damage if isinstance(damage, str) else json.dumps(json.loads(line) | damage)) + "\n")
    assert list(map(fields, read_trace(path))) == [fields(ANSWERED), fields(EVENT)]
    found = [exchange_in(each) for each in path.read_bytes().splitlines()]
    assert [each is None for each in found] == [True, False, False, True]
