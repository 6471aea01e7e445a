"""A plain batch is read in one call, anything unusual is not plain, and the twins agree."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkapy.protocol.compression import Compression
from kafkapy.protocol.plain_batch import (
    KeyValue,
    PlainBatch,
    build_plain_batch,
    lay_out_plain_batch_purely,
    read_plain_batch_purely,
)
from kafkapy.protocol.record_walker import walk_batch
from kafkapy.protocol.records import (
    Record,
    TimestampType,
    build_batch,
    header_of,
    read_header,
    set_max_timestamp,
)
from tests.protocol.record_strategies import raw_batch, raw_record, records, varint

BUILT = find_spec("kafkapy.protocol._walker") is not None
WALKER: Any = import_module("kafkapy.protocol._walker") if BUILT else None
COMPILED: Any = WALKER.read_plain_batch if BUILT else None
compiled = pytest.mark.skipif(not BUILT, reason="the twin was not compiled: no compiler?")

Read = Callable[[bytes | bytearray | memoryview], PlainBatch | None]


@pytest.fixture(
    scope="module",
    params=[read_plain_batch_purely, pytest.param(COMPILED, marks=compiled)],
    ids=["pure", "compiled"],
)
def read(request: pytest.FixtureRequest) -> Read:
    """Each of the twins."""
    chosen: Read = request.param
    return chosen


@given(found=records, transactional=st.booleans())
def test_an_uncompressed_batch_of_a_producer_is_plain(
    read: Read, found: list[Record], transactional: bool
) -> None:
    batch = build_batch(found, producer_id=7, producer_epoch=2, base_sequence=11, transactional=transactional)
    header = read_header(batch)
    summary = walk_batch(batch, 0, header, max_decompressed=0)
    result = read(memoryview(batch))
    assert result is not None
    assert (header_of(result[0]), *result[1:]) == (header, summary.min_timestamp, summary.first_null_key)


def _patched(position: int, value: int, size: int = 4) -> bytearray:
    batch = build_batch([Record(timestamp=5, value=b"a"), Record(timestamp=6, value=b"b")])
    batch[position : position + size] = value.to_bytes(size, "big", signed=True)
    return batch


def _with_log_append_time() -> bytearray:
    batch = build_batch([Record(timestamp=5)])
    set_max_timestamp(batch, 0, TimestampType.LOG_APPEND_TIME, 5)
    return batch


UNUSUAL = {
    "nothing": bytearray(),
    "less than a header": _patched(0, 0)[:60],
    "a batch that is cut short": _patched(0, 0)[:-1],
    "bytes after the batch": _patched(0, 0) + b"\0",
    "a message set": _patched(16, 1, size=1),
    "an offset": _patched(0, 1, size=8),
    "a negative length": _patched(8, -1),
    "a codec": build_batch([Record(value=b"a" * 100)], compression=Compression.LZ4),
    "a control batch": build_batch([Record(key=b"abcd")], control=True),
    "a delete horizon": build_batch([Record(timestamp=5)], delete_horizon=9),
    "log append time": _with_log_append_time(),
    "an unused attribute": _patched(21, 0x80, size=2),
    "an attribute of the other byte": _patched(21, 0x100, size=2),
    "a last offset delta beyond the records": _patched(23, 2),
    "a last offset delta that is negative": _patched(23, -1),
    "no records": raw_batch(b"", 0),
    "a negative number of records": raw_batch(b"", -1),
    "fewer records than it says": raw_batch(raw_record(), 2),
    "more records than it says": raw_batch(raw_record() + raw_record(offset=varint(1)), 1),
    "a record that is cut short": raw_batch(raw_record()[:-1], 1),
    "a record that no client could read": raw_batch(raw_record(key=varint(-2)), 1),
    "another max timestamp": _patched(35, 7, size=8),
}


@pytest.mark.parametrize("batch", UNUSUAL.values(), ids=UNUSUAL)
def test_what_is_unusual_is_not_plain(read: Read, batch: bytearray) -> None:
    assert read(batch) is None


@compiled
@settings(max_examples=1000)
@given(records.map(build_batch), st.lists(st.tuples(st.integers(0, 150), st.integers(0, 255)), max_size=3))
def test_the_twins_agree(batch: bytearray, changes: list[tuple[int, int]]) -> None:
    for position, value in changes:
        batch[position % len(batch)] = value
    assert COMPILED(batch) == read_plain_batch_purely(batch)


@compiled
@given(st.binary(max_size=100))
def test_the_twins_agree_on_any_bytes(data: bytes) -> None:
    assert COMPILED(data) == read_plain_batch_purely(data)


@compiled
def test_a_large_batch_is_read_without_the_gil() -> None:
    batch = build_batch([Record(timestamp=at, value=b"x" * 1000) for at in range(100)])
    result = COMPILED(batch)
    assert result is not None
    assert result == read_plain_batch_purely(batch)


PAIRS = st.lists(
    st.tuples(
        st.binary(max_size=300) | st.just(bytes(10_000)),
        st.none() | st.binary(max_size=300) | st.just(bytes(9000)),
    ),
    min_size=1,
    max_size=200,
)


OF_PRODUCER: dict[str, Any] = {"transactional": True, "producer_id": 2**40, "producer_epoch": 3}


@given(PAIRS, st.integers(0, 2**50), st.sampled_from([{}, OF_PRODUCER, {"control": True, **OF_PRODUCER}]))
def test_a_plain_batch_is_what_any_batch_of_its_records_is(
    pairs: list[KeyValue], timestamp: int, options: dict[str, Any]
) -> None:
    expected = build_batch([Record(-1, timestamp, key, value, []) for key, value in pairs], **options)
    header, batch = build_plain_batch(pairs, timestamp, **options)
    assert (header, bytes(batch)) == (read_header(expected), bytes(expected))


INT64 = st.integers(-(2**63), 2**63 - 1)


@compiled
@given(PAIRS, st.tuples(INT64, INT64, st.integers(-(2**15), 2**15 - 1), st.sampled_from([0, 0x10])))
def test_the_twins_lay_out_the_same_batch(pairs: list[KeyValue], numbers: tuple[int, int, int, int]) -> None:
    assert WALKER.lay_out_plain_batch(pairs, *numbers) == lay_out_plain_batch_purely(pairs, *numbers)


@pytest.mark.parametrize(
    "lay_out",
    [lay_out_plain_batch_purely, pytest.param(BUILT and WALKER.lay_out_plain_batch, marks=compiled)],
    ids=["pure", "compiled"],
)
def test_a_plain_batch_needs_a_record(lay_out: Callable[..., bytearray]) -> None:
    with pytest.raises(ValueError, match="needs a record"):
        lay_out([], 0, -1, -1, 0)


@compiled
@pytest.mark.parametrize("pairs", [[None], [(b"k",)], [("k", b"v")], [(b"k", "v")], [(b"k", b"v", b"w")], ()])
def test_what_is_no_record_is_refused(pairs: Any) -> None:
    with pytest.raises(TypeError):
        WALKER.lay_out_plain_batch(pairs, 0, -1, -1, 0)
