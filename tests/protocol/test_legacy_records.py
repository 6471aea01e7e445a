"""Message sets of magic 0 and 1 are built and read, and agree with other implementations."""

from __future__ import annotations

import contextlib
import struct
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.codec import lz4_decode_old_kafka, lz4_encode_old_kafka
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from kafkapy.protocol.compression import Compression, DecompressedSizeError, compress, decompress
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.legacy_compression import (
    compress_legacy,
    decompress_legacy,
    with_header_checksum,
    xxhash32,
)
from kafkapy.protocol.legacy_records import (
    CorruptMessageError,
    append_message,
    build_message_set,
    decode_message_set,
    iter_messages,
    unwrap,
)
from kafkapy.protocol.records import NO_TIMESTAMP, Record, TimestampType
from tests.protocol.record_strategies import field, plain, timestamps

pytest.importorskip("xxhash")  # kafka-python needs it for lz4 in magic 0

CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
MAGICS = [0, 1]
START = 1_700_000_000_000

magics = st.sampled_from(MAGICS)
codecs = st.sampled_from(CODECS)
messages = st.lists(st.builds(Record, timestamp=timestamps, key=field, value=field), min_size=1, max_size=12)

SOME = [
    Record(70, START, b"k", b"v" * 300),
    Record(71, START + 7, None, b""),
    Record(75, START + 3, b"", None),
]


def numbered(found: list[Record], first: int = 0) -> list[Record]:
    return [Record(first + 2 * i, each.timestamp, each.key, each.value) for i, each in enumerate(found)]


def without_timestamps(found: list[Record]) -> list[Record]:
    return [Record(each.offset, NO_TIMESTAMP, each.key, each.value) for each in found]


def seen(found: list[Record], magic: int) -> list[tuple[object, ...]]:
    return plain(found if magic else without_timestamps(found))


# --- bytes --------------------------------------------------------------------------------------------------


def test_a_message_of_magic_0_has_each_field_where_kafka_has_it() -> None:
    (data,) = (build_message_set([Record(5, START, b"key", b"value")], 0),)
    body = b"\x00\x00" + struct.pack(">i", 3) + b"key" + struct.pack(">i", 5) + b"value"
    assert data == struct.pack(">qiI", 5, 4 + len(body), crc32(body)) + body


def test_a_message_of_magic_1_has_a_timestamp_too() -> None:
    data = build_message_set([Record(5, START, None, b"")], 1)
    body = b"\x01\x00" + struct.pack(">qii", START, -1, 0)
    assert data == struct.pack(">qiI", 5, 4 + len(body), crc32(body)) + body


def test_offsets_within_a_wrapper_are_relative_in_magic_1_and_absolute_in_magic_0() -> None:
    for magic, inner in ((0, [70, 71, 75]), (1, [0, 1, 5])):
        (wrapper,) = iter_messages(build_message_set(SOME, magic, compression=Compression.GZIP))
        assert (wrapper.offset, wrapper.key, wrapper.timestamp) == (75, None, START + 7 if magic else -1)
        assert wrapper.value is not None
        content = decompress(Compression.GZIP, wrapper.value, limit=10_000)
        assert [message.offset for message in iter_messages(content)] == inner


def test_a_wrapper_with_log_append_time_tells_the_time_of_all_its_messages() -> None:
    records = [Record(0, START, b"a", b"b"), Record(1, START, b"c", b"d")]
    data = build_message_set(
        records, 1, compression=Compression.GZIP, timestamp_type=TimestampType.LOG_APPEND_TIME
    )
    assert data[17] == 0x08 | Compression.GZIP
    (wrapper,) = iter_messages(data)
    later = wrapper._replace(timestamp=START + 99)
    assert [message.timestamp for message in unwrap(later)] == [START + 99, START + 99]


@given(messages, magics, codecs)
def test_what_is_built_is_read(found: list[Record], magic: int, codec: Compression) -> None:
    found = numbered(found, 40)
    data = build_message_set(found, magic, compression=codec)
    assert plain(decode_message_set(data)) == seen(found, magic)


@given(messages, magics, codecs, st.integers(0, 200))
def test_a_message_that_is_cut_short_at_the_end_is_left_out(
    found: list[Record], magic: int, codec: Compression, kept: int
) -> None:
    found = numbered(found)
    data = build_message_set(found, magic, compression=codec)
    read = decode_message_set(data[: min(kept, len(data) - 1)])
    assert plain(read) == seen(found, magic)[: len(read)]
    assert len(read) < len(found)


# --- other implementations ----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", MAGICS)
def test_kafka_python_reads_what_is_built(magic: int, codec: Compression) -> None:
    batches = MemoryRecords(bytes(build_message_set(SOME, magic, compression=codec)))
    read = []
    while (batch := batches.next_batch()) is not None:
        assert batch.validate_crc()
        for each in batch:
            timestamp = NO_TIMESTAMP if each.timestamp is None else each.timestamp
            read.append(Record(each.offset, timestamp, each.key, each.value))
    assert plain(read) == seen(SOME, magic)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", MAGICS)
def test_what_kafka_python_builds_is_read(magic: int, codec: Compression) -> None:
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for offset, record in enumerate(SOME):
        builder.append(offset, timestamp=record.timestamp, key=record.key, value=record.value)
    found = [Record(i, each.timestamp, each.key, each.value) for i, each in enumerate(SOME)]
    assert plain(decode_message_set(bytes(builder.build()))) == seen(found, magic)


# --- the header checksum of lz4 -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
        (b"abcdefg", 0x9DD093B3),
        (b"message digest", 0x7C948494),
    ],
)
def test_xxhash32_of_short_input(data: bytes, expected: int) -> None:
    assert xxhash32(data) == expected


def test_lz4_in_magic_0_has_the_checksum_that_old_clients_expect() -> None:
    content = b"some content " * 100
    ours = compress_legacy(Compression.LZ4, 0, content)
    assert lz4_decode_old_kafka(ours) == content
    right = compress(Compression.LZ4, content)
    assert [i for i, (one, two) in enumerate(zip(ours, right, strict=True)) if one != two] == [6]
    assert with_header_checksum(ours, from_byte=4) == right
    assert compress_legacy(Compression.LZ4, 1, content) == right


def test_lz4_in_magic_0_is_read_with_any_header_checksum() -> None:
    content = b"some content " * 100
    right = compress(Compression.LZ4, content)
    wrong = right[:6] + bytes([right[6] ^ 0x55]) + right[7:]
    for data in (lz4_encode_old_kafka(content), right, wrong):
        assert decompress_legacy(Compression.LZ4, 0, data, limit=10_000) == content
    with pytest.raises(DecodeError):
        decompress_legacy(Compression.LZ4, 1, wrong, limit=10_000)


@given(st.binary(max_size=20))
def test_bytes_that_are_no_lz4_frame_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decompress_legacy(Compression.LZ4, 0, b"\x04\x22\x4d" + data, limit=10_000)


# --- what is refused ----------------------------------------------------------------------------------------


def patched(data: bytes | bytearray, position: int, form: str, value: int) -> bytes:
    """The message with a changed field and a matching CRC."""
    changed = bytearray(data)
    struct.pack_into(form, changed, position, value)
    struct.pack_into(">I", changed, 12, crc32(changed[16:]))
    return bytes(changed)


ONE = build_message_set([Record(0, START, b"key", b"value")], 0)
WRAPPER = build_message_set(SOME, 1, compression=Compression.GZIP)


@pytest.mark.parametrize(
    "data",
    [
        patched(ONE, 8, ">i", 13),
        patched(ONE, 8, ">i", -1),
        patched(ONE, 16, ">b", 3),
        patched(ONE, 16, ">b", -1),
        ONE[:-1] + b"x",
    ],
    ids=["size too small", "negative size", "magic 3", "negative magic", "wrong crc"],
)
def test_messages_that_were_changed_on_the_way_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptMessageError):
        decode_message_set(data)


@pytest.mark.parametrize(
    "data",
    [
        patched(ONE, 18, ">i", 100),
        patched(ONE, 18, ">i", 2**31 - 1),
        patched(ONE, 18, ">i", 8),
        patched(ONE, 25, ">i", 4),
        patched(ONE, 25, ">i", 6),
        patched(ONE, 25, ">i", -1),
        patched(ONE, 16, ">b", 2),
        patched(ONE, 17, ">b", 6),
        patched(ONE, 17, ">b", Compression.GZIP),
        patched(ONE, 17, ">b", Compression.ZSTD),
        patched(WRAPPER, 0, ">q", 1),
    ],
)
def test_messages_that_no_client_could_read_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError) as raised:
        decode_message_set(data)
    assert not isinstance(raised.value, CorruptMessageError)


def wrapper(magic: int, content: bytes | bytearray | None) -> bytes:
    data = bytearray()
    value = None if content is None else compress(Compression.GZIP, content)
    append_message(data, magic, 0, Compression.GZIP, START, None, value)
    return bytes(data)


@pytest.mark.parametrize(
    "data",
    [
        wrapper(0, None),
        wrapper(0, b""),
        wrapper(1, ONE),
        wrapper(0, wrapper(0, ONE)),
        wrapper(0, ONE[:-1]),
    ],
    ids=["null", "empty", "another magic", "a wrapper", "half a message"],
)
def test_wrappers_that_hold_no_messages_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_message_set(data)


def test_a_wrapper_with_offset_0_starts_at_0() -> None:
    data = patched(WRAPPER, 0, ">q", 0)
    assert [record.offset for record in decode_message_set(data)] == [0, 1, 5]


def test_a_message_within_a_wrapper_that_is_corrupt_is_told_from_others() -> None:
    with pytest.raises(CorruptMessageError):
        decode_message_set(wrapper(0, ONE[:-1] + b"x"))


def test_a_wrapper_that_decompresses_to_more_than_the_limit_is_refused() -> None:
    with pytest.raises(DecompressedSizeError):
        decode_message_set(wrapper(0, bytes(1_000_000)), limit=999_999)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        decode_message_set(data)
