"""Record batches of magic 2 are built and decoded, and agree with other implementations."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import pytest
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from kafkapy.protocol.compression import Compression
from kafkapy.protocol.control_records import (
    ControlType,
    control_record_key,
    end_txn_marker_value,
    parse_control_record_key,
    parse_end_txn_marker_value,
)
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import (
    HEADER_SIZE,
    NO_SEQUENCE,
    BatchHeader,
    Record,
    TimestampType,
    build_batch,
    crc_is_valid,
    decode_records,
    iter_headers,
    read_header,
    recompress_batch,
    set_max_timestamp,
    stamp_batch,
)
from tests.protocol.record_strategies import CRC_FROM, fix_crc, plain, raw_batch, raw_record, records, varint

CODECS = list(Compression)
codecs = st.sampled_from(CODECS)

SOME = [
    Record(
        timestamp=1_700_000_000_000, key=b"k", value=b"v" * 300, headers=[("trace", b"\x00\x01"), ("é", None)]
    ),
    Record(timestamp=1_700_000_000_007, key=None, value=b""),
    Record(timestamp=1_700_000_000_003, key=b"", value=None),
]


def expected(found: list[Record], base_offset: int = 0) -> list[tuple[object, ...]]:
    return [(base_offset + i, *rest) for i, (_, *rest) in enumerate(plain(found))]


# --- the header ---------------------------------------------------------------------------------------------


def test_the_header_has_each_field_where_kafka_has_it() -> None:
    batch = build_batch(
        SOME,
        base_offset=0x0102030405060708,
        compression=Compression.LZ4,
        producer_id=0x1112131415161718,
        producer_epoch=0x2122,
        base_sequence=0x31323334,
        transactional=True,
        leader_epoch=0x41424344,
    )
    assert batch[0:8].hex() == "0102030405060708"
    assert int.from_bytes(batch[8:12], "big") == len(batch) - 12
    assert batch[12:16].hex() == "41424344"
    assert batch[16] == 2
    assert batch[21:23].hex() == "0013"
    assert int.from_bytes(batch[23:27], "big") == 2
    assert int.from_bytes(batch[27:35], "big") == 1_700_000_000_000
    assert int.from_bytes(batch[35:43], "big") == 1_700_000_000_007
    assert batch[43:51].hex() == "1112131415161718"
    assert batch[51:53].hex() == "2122"
    assert batch[53:57].hex() == "31323334"
    assert int.from_bytes(batch[57:61], "big") == 3
    header = read_header(batch)
    assert header.size == len(batch)
    assert header.last_offset == 0x010203040506070A
    assert header.next_offset == header.last_offset + 1
    assert header.last_sequence == 0x31323336
    assert header.compression is Compression.LZ4
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert header.is_transactional
    assert not header.is_control
    assert not header.has_delete_horizon
    assert crc_is_valid(batch, 0, header)


def test_sequence_numbers_wrap_to_zero() -> None:
    header = read_header(build_batch(SOME, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2))
    assert header.last_sequence == 0


def test_a_batch_without_sequence_numbers_has_no_last_one() -> None:
    assert read_header(build_batch(SOME)).last_sequence == NO_SEQUENCE


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    batch = raw_batch(raw_record(), 1, attributes=codec)
    with pytest.raises(DecodeError, match="unknown compression codec"):
        _ = read_header(batch).compression
    with pytest.raises(DecodeError, match="unknown compression codec"):
        decode_records(batch)


@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_of_old_clients_are_recognised_by_their_magic(magic: int) -> None:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=1000)
    builder.append(0, timestamp=1, key=None, value=None)
    message = bytes(builder.build())
    header = read_header(message)
    assert (header.magic, header.size) == (magic, len(message))
    with pytest.raises(DecodeError, match=f"message format {magic}"):
        decode_records(message)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_a_batch_smaller_than_its_header_is_refused(length: int) -> None:
    batch = build_batch(SOME)
    struct.pack_into(">i", batch, 8, length)
    with pytest.raises(DecodeError, match="smaller than its header"):
        read_header(batch)


def test_a_header_that_ends_early_is_refused() -> None:
    batch = build_batch(SOME)
    for size in range(HEADER_SIZE):
        with pytest.raises(DecodeError):
            read_header(batch[:size])
    assert read_header(batch[:HEADER_SIZE]).size == len(batch)


def test_headers_are_listed_up_to_the_batch_that_ends_early() -> None:
    batches = [build_batch(SOME, base_offset=offset) for offset in (0, 3, 6)]
    buffer = b"\x00" * 5 + b"".join(batches)
    second, third = 5 + len(batches[0]), 5 + len(batches[0]) + len(batches[1])
    for end in range(third, len(buffer)):
        found = [(position, header.base_offset) for position, header in iter_headers(buffer[:end], 5)]
        assert found == [(5, 0), (second, 3)]
    assert [header.base_offset for _, header in iter_headers(buffer, 5)] == [0, 3, 6]


def test_stamping_leaves_the_crc_valid() -> None:
    buffer = memoryview(bytearray(7) + build_batch(SOME))[7:]
    header = stamp_batch(buffer, base_offset=2**40, leader_epoch=17)
    assert header == read_header(buffer)
    assert (header.base_offset, header.partition_leader_epoch) == (2**40, 17)
    assert crc_is_valid(buffer, 0, header)
    assert [r.offset for r in decode_records(buffer)] == [2**40, 2**40 + 1, 2**40 + 2]


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_is_the_timestamp_of_every_record(codec: Compression) -> None:
    batch = build_batch(SOME, compression=codec)
    set_max_timestamp(batch, 0, TimestampType.LOG_APPEND_TIME, 1_800_000_000_000)
    header = read_header(batch)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.compression is codec
    assert crc_is_valid(batch, 0, header)
    assert {r.timestamp for r in decode_records(batch)} == {1_800_000_000_000}
    assert {r.timestamp for r in KafkaPythonBatch(bytes(batch))} == {1_800_000_000_000}


def test_going_back_to_create_time_gives_the_producers_timestamps_back() -> None:
    batch = build_batch(SOME)
    before = bytes(batch)
    set_max_timestamp(batch, 0, TimestampType.LOG_APPEND_TIME, 1_800_000_000_000)
    set_max_timestamp(batch, 0, TimestampType.CREATE_TIME, 1_700_000_000_007)
    assert bytes(batch) == before


def test_every_flipped_bit_after_the_crc_is_noticed() -> None:
    batch = build_batch(SOME)
    header = read_header(batch)
    for position in range(CRC_FROM, len(batch)):
        for bit in range(8):
            batch[position] ^= 1 << bit
            assert not crc_is_valid(batch, 0, header)
            batch[position] ^= 1 << bit
    assert not crc_is_valid(batch[:-1], 0, header)


# --- building and decoding ----------------------------------------------------------------------------------


@given(records, codecs, st.integers(0, 2**62))
def test_what_is_built_decodes_to_the_same_records(
    found: list[Record], codec: Compression, base_offset: int
) -> None:
    batch = build_batch(found, base_offset=base_offset, compression=codec)
    header = read_header(batch)
    assert crc_is_valid(batch, 0, header)
    assert header.record_count == len(found)
    assert header.max_timestamp == max(-1, *(r.timestamp for r in found))
    assert plain(decode_records(batch)) == expected(found, base_offset)


@given(records, codecs)
def test_kafka_python_and_aiokafka_read_what_is_built(found: list[Record], codec: Compression) -> None:
    batch = bytes(build_batch(found, base_offset=5, compression=codec))
    for reader in (KafkaPythonBatch(batch), AiokafkaBatch(batch)):
        assert reader.validate_crc()
        assert plain(reader) == expected(found, 5)


@given(records, codecs)
def test_what_kafka_python_builds_decodes(found: list[Record], codec: Compression) -> None:
    assert plain(decode_records(build_with(KafkaPythonBuilder, found, codec))) == expected(found)


# aiokafka's builder takes -1 for a base timestamp that is not set.
@given(records.filter(lambda found: all(r.timestamp >= 0 for r in found)), codecs)
def test_what_aiokafka_builds_decodes(found: list[Record], codec: Compression) -> None:
    assert plain(decode_records(build_with(AiokafkaBuilder, found, codec))) == expected(found)


def build_with(builder_class: Any, found: list[Record], codec: Compression) -> bytearray:
    builder = builder_class(
        magic=2,
        compression_type=int(codec),
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=10**7,
    )
    for offset, record in enumerate(found):
        builder.append(offset, record.timestamp, record.key, record.value, list(record.headers))
    batch = bytearray(builder.build())
    assert crc_is_valid(batch, 0, read_header(batch))
    return batch


@given(records, codecs, codecs)
def test_recompressing_keeps_the_records_and_the_header(
    found: list[Record], before: Compression, after: Compression
) -> None:
    batch = build_batch(
        found, base_offset=9, compression=before, producer_id=4, base_sequence=2, transactional=True
    )
    header = read_header(batch)
    again = recompress_batch(batch, 0, header, after)
    assert plain(decode_records(again)) == expected(found, 9)
    new = read_header(again)
    assert crc_is_valid(again, 0, new)
    assert new.compression is after
    unchanged: dict[str, int] = {"batch_length": 0, "crc": 0, "attributes": 0}
    assert new._replace(**unchanged) == header._replace(**unchanged)


def test_offsets_may_have_gaps_as_after_compaction() -> None:
    batch = build_batch([Record(offset=10), Record(offset=15), Record()], base_offset=10)
    assert [r.offset for r in decode_records(batch)] == [10, 15, 16]
    assert read_header(batch).last_offset == 16


def test_offsets_must_rise() -> None:
    with pytest.raises(ValueError, match="not after"):
        build_batch([Record(offset=10), Record(offset=10)], base_offset=10)


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    batch = build_batch(SOME, delete_horizon=1_900_000_000_000)
    header = read_header(batch)
    assert header.has_delete_horizon
    assert header.base_timestamp == 1_900_000_000_000
    assert plain(decode_records(batch)) == expected(SOME)


def test_a_batch_needs_a_record() -> None:
    with pytest.raises(ValueError, match="needs a record"):
        build_batch([], delete_horizon=1)


# --- broken batches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_ends_early_is_refused(codec: Compression) -> None:
    batch = build_batch(SOME, compression=codec)
    for size in range(len(batch)):
        with pytest.raises(DecodeError):
            decode_records(batch[:size])


@pytest.mark.parametrize("codec", CODECS)
def test_a_payload_that_ends_early_is_refused(codec: Compression) -> None:
    batch = build_batch(SOME, compression=codec)
    for size in range(HEADER_SIZE, len(batch)):
        shorter = batch[:size]
        struct.pack_into(">i", shorter, 8, size - 12)
        with pytest.raises(DecodeError):
            decode_records(shorter)


@pytest.mark.parametrize("codec", CODECS)
def test_a_flipped_bit_is_refused_or_harmless(codec: Compression) -> None:
    batch = build_batch(SOME, compression=codec)
    for position in range(len(batch)):
        for bit in range(8):
            batch[position] ^= 1 << bit
            with contextlib.suppress(DecodeError):
                decode_records(batch)
            batch[position] ^= 1 << bit


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_a_batch_or_refused(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        decode_records(data)


@given(st.binary(max_size=100), st.integers(-1, 20), st.integers(0, 7))
def test_an_arbitrary_payload_is_records_or_refused(payload: bytes, count: int, codec: int) -> None:
    with contextlib.suppress(DecodeError):
        decode_records(raw_batch(payload, count, attributes=codec))


@pytest.mark.parametrize(
    "payload",
    [
        raw_record(key=varint(-2)),
        raw_record(value=varint(-2)),
        raw_record(key=varint(1)),
        raw_record(value=varint(2**31 - 1)),
        raw_record(headers=varint(-1)),
        raw_record(headers=varint(1)),
        raw_record(headers=varint(2**31 - 1) + b"\x00" * 9),
        raw_record(headers=varint(1) + varint(-1) + varint(0)),
        raw_record(headers=varint(1) + varint(0) + varint(-2)),
        raw_record(headers=varint(1) + varint(1) + b"\xff" + varint(0)),
        raw_record(offset=b"\xff\xff\xff\xff\x1f"),
        raw_record(offset=b"\x80\x80\x80\x80\x80\x00"),
        raw_record(timestamp=b"\xff" * 9 + b"\x02"),
        raw_record(timestamp=b"\x80" * 10 + b"\x00"),
        raw_record(length=varint(-1)),
        raw_record(length=varint(5)),
        raw_record(length=varint(7)) + b"\x00",
        raw_record() + b"\x00",
    ],
)
def test_records_that_contradict_themselves_are_refused(payload: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_records(raw_batch(payload, 1))


@pytest.mark.parametrize("count", [-1, 0, 2, 2**31 - 1])
def test_a_wrong_record_count_is_refused(count: int) -> None:
    with pytest.raises(DecodeError):
        decode_records(raw_batch(raw_record(), count))


def test_a_batch_that_compaction_has_emptied_has_no_records() -> None:
    batch = raw_batch(b"", 0)
    struct.pack_into(">i", batch, 23, 41)
    fix_crc(batch)
    assert decode_records(batch) == []
    assert read_header(batch).last_offset == 41


def test_the_readers_stand_on_a_header_that_is_a_plain_tuple() -> None:
    header = read_header(build_batch(SOME))
    assert isinstance(header, BatchHeader)
    assert len(header) == 13


# --- control records ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("control_type", "marker"), [(ControlType.ABORT, ABORT_MARKER), (ControlType.COMMIT, COMMIT_MARKER)]
)
def test_an_end_transaction_marker_is_what_consumers_look_for(
    control_type: ControlType, marker: ControlRecord
) -> None:
    batch = build_batch(
        [Record(timestamp=5, key=control_record_key(control_type), value=end_txn_marker_value(7))],
        producer_id=3,
        producer_epoch=1,
        control=True,
        transactional=True,
    )
    read = AiokafkaBatch(bytes(batch))
    assert read.is_control_batch
    assert read.is_transactional
    assert ControlRecord.parse(next(read).key) == marker
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    (record,) = decode_records(batch)
    assert parse_control_record_key(record.key) == control_type
    assert parse_end_txn_marker_value(record.value) == 7


def test_a_control_type_of_a_later_kafka_is_passed_on() -> None:
    assert parse_control_record_key(struct.pack(">hh", 0, 6)) == 6


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x01"])
def test_a_broken_control_key_is_refused(key: bytes | None) -> None:
    with pytest.raises(DecodeError):
        parse_control_record_key(key)


@pytest.mark.parametrize("value", [None, b"", b"\x00\x00\x00\x00\x00", b"\xff\xff\x00\x00\x00\x01"])
def test_a_broken_end_transaction_marker_is_refused(value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        parse_end_txn_marker_value(value)
