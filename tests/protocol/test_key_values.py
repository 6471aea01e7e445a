"""Keys and values of a batch, against `decode_records`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.protocol.compression import Compression
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.key_values import KeyValueAt, decode_key_values
from kafkapy.protocol.records import HEADER_SIZE, Record, build_batch, decode_records, read_header

lengths = st.integers(0, 70) | st.integers(8_000, 8_300)
contents = st.none() | lengths.map(bytes) | st.binary(max_size=9)
records = st.lists(
    st.tuples(
        st.integers(1, 3) | st.integers(60, 70) | st.just(9_000),
        st.integers(0, 200) | st.just(2**40),
        contents,
        contents,
        st.just([]) | st.just([("h", b"x")]),
    ),
    min_size=1,
    max_size=8,
)
"""How far the offset is from the one before, the timestamp, and the rest of each record."""


def batch_of(
    records: list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes]]]], codec: Compression
) -> bytearray:
    offset = 99
    made = []
    for step, timestamp, key, value, headers in records:
        offset += step
        made.append(Record(offset, timestamp, key, value, headers))
    return build_batch(made, base_offset=100, compression=codec)


def slowly(batch: bytearray) -> list[KeyValueAt] | None:
    try:
        return [(each.offset, each.key, each.value) for each in decode_records(batch)]
    except DecodeError:
        return None


@given(records, st.sampled_from([Compression.NONE, Compression.NONE, Compression.LZ4]))
def test_they_are_those_of_the_records(
    records: list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes]]]], codec: Compression
) -> None:
    batch = batch_of(records, codec)
    assert decode_key_values(batch, 0, read_header(batch)) == slowly(batch)


@given(records, st.data())
def test_broken_records_are_refused_as_decode_records_refuses_them(
    records: list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes]]]], data: st.DataObject
) -> None:
    batch = batch_of(records, Compression.NONE)
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.integers(HEADER_SIZE, min(len(batch), HEADER_SIZE + 40) - 1))
        batch[place] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    expected = slowly(batch)
    if expected is None:
        with pytest.raises(DecodeError):
            decode_key_values(batch, 0, read_header(batch))
    else:
        assert decode_key_values(batch, 0, read_header(batch)) == expected


@pytest.mark.parametrize("count", [0, 1, 3, -1, 2**31 - 1])
def test_a_batch_with_another_number_of_records_is_broken(count: int) -> None:
    batch = batch_of([(1, 0, b"a", b"b", []), (1, 0, b"c", None, [])], Compression.NONE)
    header = read_header(batch)._replace(record_count=count)
    with pytest.raises(DecodeError):
        decode_key_values(batch, 0, header)


def test_a_torn_batch_is_broken() -> None:
    batch = batch_of([(1, 0, b"a", b"b", []), (1, 0, b"c", None, [])], Compression.NONE)
    header = read_header(batch)
    for size in range(HEADER_SIZE, len(batch)):
        with pytest.raises(DecodeError):
            decode_key_values(batch[:size], 0, header)
