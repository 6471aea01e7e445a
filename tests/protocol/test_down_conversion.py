"""Record batches as message sets.

They have every record that a message set can hold, and nothing else.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.protocol.compression import Compression
from kafkapy.protocol.control_records import ControlType, control_record_key, end_txn_marker_value
from kafkapy.protocol.down_conversion import ZstdBatchError, down_convert
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.legacy_records import decode_message_set, iter_messages
from kafkapy.protocol.records import (
    NO_TIMESTAMP,
    Record,
    TimestampType,
    build_batch,
    decode_records,
    read_header,
    recompress_batch,
)
from tests.protocol.record_strategies import fix_crc, plain, records

CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
START = 1_700_000_000_000
PLENTY = 1 << 20


def batch(first: int, count: int = 3, *, size: int = 10, **options: object) -> bytearray:
    found = [
        Record(-1, START + first + i, b"key", (b"%d" % (first + i)).ljust(size, b"."), [("h", b"x")])
        for i in range(count)
    ]
    return build_batch(found, base_offset=first, **options)  # type: ignore[arg-type]


def marker(offset: int) -> bytearray:
    record = Record(-1, START, control_record_key(ControlType.COMMIT), end_txn_marker_value(0))
    return build_batch(
        [record], base_offset=offset, control=True, transactional=True, producer_id=5, producer_epoch=0
    )


def offsets(data: bytes | bytearray) -> list[int]:
    return [record.offset for record in decode_message_set(data)]


def converted(
    data: bytes | bytearray, magic: int, first_offset: int, *, limit: int, **bounds: int
) -> bytearray:
    """The message set; it says how many records it has, if it does not end within a message."""
    found = down_convert(data, magic, first_offset, limit=limit, **bounds)
    if limit == PLENTY:
        assert found.records == len(offsets(found.messages))
    return found.messages


@given(
    st.lists(st.tuples(records, st.sampled_from(CODECS)), min_size=1, max_size=4),
    st.sampled_from([0, 1]),
    st.sampled_from(TimestampType),
)
def test_every_record_is_there_without_headers(
    content: list[tuple[list[Record], Compression]], magic: int, timestamp_type: TimestampType
) -> None:
    data = b""
    expected: list[Record] = []
    for found, codec in content:
        made = build_batch(found, base_offset=len(expected), compression=codec, timestamp_type=timestamp_type)
        expected += decode_records(made)
        data += made
    messages = converted(data, magic, 0, limit=1 << 30)
    for record in expected:
        record.headers = []
        if magic == 0:
            record.timestamp = NO_TIMESTAMP
    assert plain(decode_message_set(messages)) == plain(expected)


@pytest.mark.parametrize("magic", [0, 1])
def test_an_offset_within_a_batch_is_found_in_messages_but_not_in_wrappers(magic: int) -> None:
    assert offsets(converted(batch(10), magic, 11, limit=PLENTY)) == [11, 12]
    compressed = batch(10, compression=Compression.GZIP)
    assert offsets(converted(compressed, magic, 11, limit=PLENTY)) == [10, 11, 12]


def test_log_append_time_is_told_in_magic_1() -> None:
    for codec in CODECS:
        made = batch(0, compression=codec, timestamp_type=TimestampType.LOG_APPEND_TIME)
        found = converted(made, 1, 0, limit=PLENTY)
        assert all(message.attributes == 0x08 | codec for message in iter_messages(found))
        assert {record.timestamp for record in decode_message_set(found)} == {START + 2}
        assert all(message.attributes == codec for message in iter_messages(converted(made, 0, 0, limit=9)))


def test_control_batches_are_left_out_and_transactional_records_stay() -> None:
    transactional = batch(0, transactional=True, producer_id=5, producer_epoch=0, base_sequence=0)
    data = transactional + marker(3) + batch(4)
    assert offsets(converted(data, 1, 0, limit=PLENTY)) == [0, 1, 2, 4, 5, 6]
    assert converted(marker(3) + marker(4), 1, 3, limit=PLENTY) == b""


def test_zstd_ends_the_set_and_is_refused_where_it_comes_first() -> None:
    zstd = batch(3, compression=Compression.ZSTD)
    assert offsets(converted(batch(0) + zstd + batch(6), 1, 0, limit=PLENTY)) == [0, 1, 2]
    for data in (zstd + batch(6), marker(2) + zstd):
        with pytest.raises(ZstdBatchError):
            converted(data, 1, 0, limit=PLENTY)


def test_the_first_batch_is_whole_and_the_others_end_at_the_limit() -> None:
    first = converted(batch(0, 100), 0, 0, limit=0)
    assert offsets(first) == list(range(100))
    data = batch(0, 100) + batch(100, 100)
    truncated = converted(data, 0, 0, limit=len(first) + 100)
    assert len(truncated) == len(first) + 100
    assert offsets(truncated) == list(range(102))
    assert converted(data, 0, 0, limit=PLENTY).startswith(truncated)


def test_a_wrapper_beyond_the_limit_is_truncated() -> None:
    data = batch(0, 100, compression=Compression.GZIP) + batch(100, 100, compression=Compression.GZIP)
    first = converted(data, 1, 0, limit=0)
    assert offsets(first) == list(range(100))
    truncated = converted(data, 1, 0, limit=len(first) + 50)
    assert len(truncated) == len(first) + 50
    assert offsets(truncated) == list(range(100))


def test_a_batch_that_decompresses_to_more_than_the_limit_is_refused() -> None:
    with pytest.raises(DecodeError):
        converted(
            batch(0, 1, size=100_000, compression=Compression.GZIP), 1, 0, limit=9, max_decompressed=99_999
        )


@pytest.mark.parametrize("codec", CODECS)
def test_what_compaction_left_of_a_batch_before_the_offset_is_left_out(codec: Compression) -> None:
    compacted = build_batch([Record(10, START, b"k", b"v"), Record(12, START, b"l", b"w")], base_offset=10)
    compacted[23:27] = (9).to_bytes(4, "big")
    if codec:
        compacted = recompress_batch(compacted, 0, read_header(compacted), codec)
    fix_crc(compacted)
    assert offsets(converted(compacted, 1, 12, limit=PLENTY))[-1] == 12
    assert converted(compacted, 1, 13, limit=PLENTY) == b""
    assert offsets(converted(compacted + batch(20), 1, 13, limit=PLENTY)) == [20, 21, 22]


def test_a_damaged_batch_is_never_converted() -> None:
    damaged = batch(3)
    damaged[-2] ^= 1
    assert offsets(converted(batch(0) + damaged + batch(6), 1, 0, limit=PLENTY)) == [0, 1, 2]
    with pytest.raises(DecodeError):
        converted(damaged + batch(6), 1, 0, limit=PLENTY)
