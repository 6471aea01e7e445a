"""The columnar decoder equals the slow one, which makes records of a batch one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkapy.log import record_columns
from kafkapy.log.record_columns import decode_columns
from kafkapy.protocol.compression import Compression
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import (
    HEADER_SIZE,
    BatchHeader,
    Record,
    TimestampType,
    build_batch,
    decode_records,
    read_header,
    set_max_timestamp,
)
from tests.calls import calls_of
from tests.log.columns import records_of
from tests.protocol.record_strategies import plain, raw_batch, raw_record, records, varint

Batches = tuple[bytes, list[tuple[int, BatchHeader]]]


@dataclass
class Built:
    """Batches, one after the other, with bytes that belong to none between them."""

    buffer: bytearray
    batches: list[tuple[int, BatchHeader]]


@st.composite
def built_batches(draw: st.DrawFn) -> Built:
    built = Built(bytearray(), [])
    offset = draw(st.integers(0, 2**40))
    for found in draw(st.lists(records, min_size=1, max_size=5)):
        built.buffer += draw(st.binary(max_size=3))
        kind = draw(st.sampled_from(TimestampType))
        for record, gap in zip(found, draw(st.lists(st.integers(0, 3), min_size=len(found))), strict=False):
            offset += gap
            record.offset = offset
            offset += 1
        batch = build_batch(
            found,
            base_offset=found[0].offset,
            compression=draw(st.sampled_from(Compression)),
            timestamp_type=kind,
        )
        built.batches.append((len(built.buffer), read_header(batch)))
        built.buffer += batch
    return built


def slowly(buffer: bytes | bytearray, batches: Sequence[tuple[int, BatchHeader]]) -> list[Record]:
    return [record for at, header in batches for record in decode_records(buffer, at, header)]


@settings(max_examples=300)
@given(built_batches())
def test_columns_equal_records_and_well_formed_batches_take_the_fast_path(built: Built) -> None:
    with pytest.MonkeyPatch.context() as patch:
        decoded_slowly = calls_of(patch, record_columns, "_decode_slowly")
        columns = decode_columns(built.buffer, built.batches)
    assert decoded_slowly == []
    assert plain(records_of(columns)) == plain(slowly(built.buffer, built.batches))
    kinds = [int(header.timestamp_type) for _, header in built.batches for _ in range(header.record_count)]
    assert columns.timestamp_types.tolist() == kinds


# --- bytes that nobody should write -------------------------------------------------------------------------

odd_varints = st.binary(min_size=1, max_size=12) | st.integers(-(2**63), 2**63 - 1).map(varint)
odd_records = st.builds(
    raw_record,
    attributes=st.sampled_from([0, 0x80]),
    timestamp=odd_varints,
    offset=odd_varints,
    key=odd_varints,
    value=odd_varints,
    headers=odd_varints,
)


def outcome(
    buffer: bytes | bytearray, batches: list[tuple[int, BatchHeader]]
) -> list[tuple[object, ...]] | None:
    """The records as the slow decoder has them; None where they cannot be read."""
    try:
        found = slowly(buffer, batches)
    except DecodeError:
        return None
    if not all(-(2**63) <= record.timestamp < 2**63 for record in found):
        return None
    return plain(found)


def column_outcome(
    buffer: bytes | bytearray, batches: list[tuple[int, BatchHeader]]
) -> list[tuple[object, ...]] | None:
    try:
        return plain(records_of(decode_columns(buffer, batches)))
    except (DecodeError, UnicodeDecodeError):
        return None


def agree(batch: bytes | bytearray) -> None:
    batches = [(0, read_header(batch))]
    assert column_outcome(batch, batches) == outcome(batch, batches)


@settings(max_examples=1000)
@given(st.lists(odd_records | st.just(raw_record()), max_size=4), st.integers(-1, 5), st.binary(max_size=4))
@example([raw_record(key=varint(-2))], 1, b"")
@example([raw_record(value=varint(-3))], 1, b"")
@example([raw_record(headers=varint(-1))], 1, b"")
@example([raw_record(headers=b"\x02\x01\x01")], 1, b"")
@example([raw_record(timestamp=varint(2**63 - 1))], 1, b"")
@example([raw_record(timestamp=b"\xff" * 9 + b"\x02")], 1, b"")
@example([raw_record(offset=b"\xff" * 4 + b"\x10")], 1, b"")
@example([raw_record(offset=b"\x80\x80\x80\x80\x00")], 1, b"")
@example([raw_record(length=varint(-5))], 1, b"")
@example([], 0, b"")
def test_both_refuse_the_same_odd_records(payload: list[bytes], count: int, behind: bytes) -> None:
    agree(raw_batch(b"".join(payload) + behind, count, base_timestamp=5))


@settings(max_examples=1000)
@given(records, st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=3))
def test_both_make_the_same_of_changed_bytes(found: list[Record], changes: list[tuple[int, int]]) -> None:
    batch = build_batch(found)
    for place, value in changes:
        batch[HEADER_SIZE + place % (len(batch) - HEADER_SIZE)] = value
    agree(batch)


@given(records, st.integers(1, 30))
def test_both_refuse_a_batch_that_is_cut_short(found: list[Record], cut: int) -> None:
    batch = build_batch(found)
    agree(batch[: max(len(batch) - cut, HEADER_SIZE)])


def test_a_record_with_very_many_headers_is_read_all_the_same() -> None:
    many = Record(0, 1, b"k", b"v", [(f"h{number}", b"%d" % number) for number in range(300)])
    batch = build_batch([many, Record(1, 2, None, None, [("a", None)])])
    batches = [(0, read_header(batch))]
    assert plain(records_of(decode_columns(batch, batches))) == plain(slowly(batch, batches))


def test_a_timestamp_beyond_64_bits_is_refused() -> None:
    batch = raw_batch(raw_record(timestamp=varint(2**63 - 1)), 1, base_timestamp=5)
    with pytest.raises(DecodeError, match="timestamp out of range"):
        decode_columns(batch, [(0, read_header(batch))])


def test_an_append_time_hides_the_times_of_the_records() -> None:
    batch = build_batch([Record(0, 5), Record(1, 9)])
    set_max_timestamp(batch, 0, TimestampType.LOG_APPEND_TIME, 77)
    columns = decode_columns(batch, [(0, read_header(batch))])
    assert columns.timestamps.tolist() == [77, 77]


@given(built_batches(), st.integers(0, 80), st.integers(0, 80))
def test_a_range_of_offsets_keeps_each_record_with_its_headers(built: Built, first: int, last: int) -> None:
    base = built.batches[0][1].base_offset
    columns = decode_columns(built.buffer, built.batches).between(base + first, base + last)
    wanted = range(base + first, base + last)
    expected = [record for record in slowly(built.buffer, built.batches) if record.offset in wanted]
    assert plain(records_of(columns)) == plain(expected)
