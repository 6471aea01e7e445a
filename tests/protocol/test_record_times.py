"""Searches by time find the same records as decoding all of them, in little memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkapy.protocol import record_times
from kafkapy.protocol.compression import Compression, DecompressedSizeError, compress
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.record_times import find_time_purely, first_record_at, newest_record
from kafkapy.protocol.records import (
    Record,
    TimestampType,
    build_batch,
    decode_records,
    read_header,
    set_max_timestamp,
)
from tests.protocol.record_strategies import raw_batch, raw_record, records, varint
from tests.twins import without_compiled_parts

CODECS = list(Compression)
BUILT = find_spec("kafkapy.protocol._walker") is not None
small = st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1])
raw_heads = st.builds(
    lambda timestamp, offset, value: raw_record(
        timestamp=varint(timestamp), offset=varint(offset), value=varint(len(value)) + value
    ),
    small,
    st.integers(-3, 3) | st.sampled_from([-(2**31), 2**31 - 1]),
    st.binary(max_size=9),
)


COMPILED: Any = getattr(import_module("kafkapy.protocol._walker"), "find_time", None) if BUILT else None
compiled = pytest.mark.skipif(COMPILED is None, reason="the twin was not compiled: no compiler?")


@pytest.fixture(
    autouse=True,
    scope="module",
    params=[find_time_purely, pytest.param(COMPILED, marks=compiled)],
    ids=["pure", "compiled"],
)
def twin(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs the tests with each of the twins."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param is find_time_purely:
            without_compiled_parts(patch)
        assert record_times.find_time is request.param
        yield


@compiled
@settings(max_examples=1000)
@given(st.binary(max_size=60) | st.lists(raw_heads, max_size=5).map(b"".join), small, small, st.booleans())
def test_the_twins_agree(data: bytes, timestamp: int, offset: int, newest: bool) -> None:
    results = []
    for find in (find_time_purely, COMPILED):
        try:
            results.append(find(data, timestamp, offset, newest))
        except ValueError:
            results.append("refused")
    assert results[0] == results[1]


def tiny_records(count: int) -> bytes:
    return b"".join(raw_record(offset=varint(index)) for index in range(count))


@given(records, st.sampled_from(CODECS), st.data())
def test_a_record_is_found_as_among_all_decoded(
    given_records: list[Record], codec: Compression, data: st.DataObject
) -> None:
    batch = build_batch(given_records, compression=codec, base_offset=7)
    if data.draw(st.booleans()):
        set_max_timestamp(batch, 0, TimestampType.LOG_APPEND_TIME, 1234)
    header, decoded = read_header(batch), decode_records(batch)
    timestamp = data.draw(st.sampled_from([each.timestamp + more for each in decoded for more in (-1, 0, 1)]))
    start_offset = data.draw(st.integers(0, 20))
    there = [(each.timestamp, each.offset) for each in decoded if each.offset >= start_offset]
    assert first_record_at(batch, header, timestamp=timestamp, start_offset=start_offset) == next(
        (each for each in there if each[0] >= timestamp), None
    )
    assert newest_record(batch, header, start_offset=start_offset) == max(
        there, key=lambda each: (each[0], -each[1]), default=None
    )


@given(st.lists(st.integers(0, 300_000), min_size=1, max_size=12), st.sampled_from(CODECS))
def test_records_that_pieces_cut_through_are_read(sizes: list[int], codec: Compression) -> None:
    given_records = [Record(timestamp=index, value=bytes(size)) for index, size in enumerate(sizes)]
    batch = build_batch(given_records, compression=codec)
    last = len(sizes) - 1
    assert newest_record(batch, read_header(batch), start_offset=0) == (last, last)


def test_a_batch_that_decompresses_to_much_takes_little_memory() -> None:
    payload = compress(
        Compression.ZSTD,
        tiny_records(100_000)
        + raw_record(
            offset=varint(100_000), timestamp=varint(9), value=varint(30_000_000) + bytes(30_000_000)
        ),
    )
    batch = raw_batch(payload, 100_001, attributes=Compression.ZSTD)
    tracemalloc.start()
    try:
        assert newest_record(batch, read_header(batch), start_offset=0) == (9, 100_000)
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


def test_a_batch_that_decompresses_to_more_than_the_limit_is_not_read_on() -> None:
    batch = raw_batch(compress(Compression.GZIP, tiny_records(100_000)), 100_000, attributes=Compression.GZIP)
    header = read_header(batch)
    assert newest_record(batch, header, start_offset=0, limit=1 << 20) == (0, 0)
    with pytest.raises(DecompressedSizeError):
        newest_record(batch, header, start_offset=0, limit=1 << 16)
    assert first_record_at(batch, header, timestamp=0, start_offset=9, limit=1 << 16) == (0, 9), (
        "what was found before the limit counts"
    )


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (tiny_records(3), 2),
        (tiny_records(3), 4),
        (tiny_records(3)[:-1], 3),
        (tiny_records(3) + b"\x0e\x00", 4),
        (tiny_records(1) + raw_record(length=varint(-1)), 2),
        (tiny_records(1) + raw_record(length=varint(5)), 2),
        (raw_record(timestamp=b"\xff" * 10 + b"\x01"), 1),
        (b"", 1),
    ],
)
def test_records_that_do_not_fit_their_batch_are_refused(payload: bytes, count: int) -> None:
    batch = raw_batch(payload, count)
    with pytest.raises(DecodeError):
        newest_record(batch, read_header(batch), start_offset=0)
