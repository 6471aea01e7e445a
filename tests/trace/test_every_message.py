"""Whatever is said can be told: each API in each version, and damaged frames."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from kafkapy.protocol import codec
from kafkapy.protocol.frames import encode_request, response_frame
from kafkapy.protocol.messages import request_class, response_class
from kafkapy.protocol.messages.api_table import API_SCHEMAS
from kafkapy.protocol.schema import NOT_GENERATED
from kafkapy.protocol.types import ApiKey
from kafkapy.trace.exchange import Exchange
from kafkapy.trace.lines import Filters
from kafkapy.trace.trace_file import TraceWriter, read_trace
from tests.protocol.random_messages import random_message
from tests.trace.relaying import Traced

_SIZES = re.compile(r" \d+ B, \d+ B")
KEYS = [key for key in API_SCHEMAS if ApiKey(key).name.lower() not in NOT_GENERATED]


def exchanges(key: int, source: random.Random) -> list[Exchange]:
    """An exchange of each version."""
    made = []
    first, last = request_class(key).VERSIONS
    for version in range(first, last + 1):
        request = encode_request(random_message(source, request_class(key), version), version, 7, "app")
        body = codec.encode(random_message(source, response_class(key), version), version)
        answer = response_frame(key, version, 7, body)
        made.append(Exchange(1, "client:1", "broker:2", 1.0, request[4:], 2.0, answer[4:]))
    return made


@pytest.mark.parametrize("key", KEYS, ids=lambda key: API_SCHEMAS[key].name)
def test_each_version_is_told_and_written_and_read_again_the_same(key: int, tmp_path: Path) -> None:
    made = exchanges(key, random.Random(key))
    traced = Traced(exchanges=made)
    told = traced.lines(full=True)
    assert told.count("\n") == 3 * len(made)
    with TraceWriter(tmp_path / "trace") as writer:
        for exchange in made:
            writer.write(exchange)
    read = Traced(exchanges=list(read_trace(tmp_path / "trace"))).lines(full=True)
    # A frame whose secrets are hidden has another size.
    assert _SIZES.sub("", read) == _SIZES.sub("", told)


@pytest.mark.parametrize("seed", range(20))
def test_damaged_frames_are_told_and_written(seed: int, tmp_path: Path) -> None:
    source = random.Random(seed)
    damaged = []
    for key in source.sample(KEYS, 10):
        for exchange in exchanges(key, source):
            request, response = bytearray(exchange.request), bytearray(exchange.response or b"")
            for frame in (request, response):
                for _ in range(3):
                    frame[source.randrange(len(frame))] = source.randrange(256)
                del frame[source.randrange(len(frame)) + 1 :]
            damaged.append(Exchange(1, "client:1", "broker:2", 1.0, bytes(request), 2.0, bytes(response)))
    traced = Traced(exchanges=damaged)
    assert traced.lines(Filters(topics=("orders",), only_errors=True), full=True).count("\n") >= 0
    assert traced.lines(full=True).count("\n") >= len(damaged)
    with TraceWriter(tmp_path / "trace") as writer:
        for exchange in damaged:
            writer.write(exchange)
    assert len(list(read_trace(tmp_path / "trace"))) == len(damaged)
