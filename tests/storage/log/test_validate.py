"""Validation of record batches.

Tested are what Kafka's LogValidator refuses, and what is stored of the rest.
"""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.protocol import record_walker
from kafkapy.protocol.compression import Compression
from kafkapy.protocol.control_records import ControlType, control_record_key, end_txn_marker_value
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.records import (
    HEADER_SIZE,
    Record,
    TimestampType,
    build_batch,
    crc_is_valid,
    decode_records,
    read_header,
)
from kafkapy.storage.log import validate
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.markers import TransactionMarker
from kafkapy.storage.log.validate import (
    AppendOrigin,
    DecompressedTooLargeError,
    InvalidRecordsError,
    PreparedBatches,
    effort,
    prepare_batches,
)
from tests.twins import without_compiled_parts

NOW = 1_700_000_000_000
CLIENT, COORDINATOR, REPLICATION = AppendOrigin
CONFIG = LogConfig()
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))
LOG_APPEND_TIME = LogConfig(message_timestamp_type="LogAppendTime")
ALL_CODECS = list(Compression)


def batch_of(
    count: int = 3, *, timestamp: int = NOW, key: bytes | None = b"k", **options: object
) -> bytearray:
    records = [Record(-1, timestamp + i, key, b"value %d" % i, [("h", b"x")]) for i in range(count)]
    return build_batch(records, **options)  # type: ignore[arg-type]


def prepare(
    records: bytes | bytearray | memoryview, config: LogConfig = CONFIG, origin: AppendOrigin = CLIENT
) -> PreparedBatches:
    return prepare_batches(records, config=config, origin=origin, now_ms=NOW)


def refused(
    records: bytes | bytearray, config: LogConfig = CONFIG, origin: AppendOrigin = CLIENT
) -> KafkaError:
    with pytest.raises(KafkaError) as raised:
        prepare(records, config, origin)
    assert raised.value.message
    return raised.value


def with_crc(batch: bytearray) -> bytearray:
    """The batch with a CRC that fits."""
    from crc32c import crc32c

    struct.pack_into("!I", batch, 17, crc32c(bytes(batch[21:])))
    return batch


def patched(position: int, form: str, value: int, **options: object) -> bytearray:
    batch = batch_of(**options)  # type: ignore[arg-type]
    struct.pack_into(form, batch, position, value)
    return with_crc(batch)


# --- what is stored -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ALL_CODECS)
def test_a_batch_gets_offsets_and_leader_epoch_and_nothing_else(codec: Compression) -> None:
    sent = batch_of(3, compression=codec, producer_id=5, producer_epoch=1, base_sequence=7)
    records = bytearray(sent)
    prepared = prepare(records)
    assert (prepared.nbytes, prepared.record_count) == (len(sent), 3)
    assert prepared.assign(100, leader_epoch=4) == 103
    (batch,) = prepared.batches
    assert batch.header == read_header(sent)._replace(base_offset=100, partition_leader_epoch=4)
    assert bytes(batch.buffer[16:]) == bytes(sent[16:])
    assert batch.buffer.obj is records, "patched where it lies"
    assert [record.offset for record in decode_records(batch.buffer)] == [100, 101, 102]


def test_offsets_can_be_assigned_again() -> None:
    prepared = prepare(batch_of(2))
    prepared.assign(5, leader_epoch=0)
    assert prepared.assign(9, leader_epoch=1) == 11
    assert prepared.batches[0].header.base_offset == 9


def test_a_read_only_buffer_is_copied() -> None:
    sent = bytes(batch_of())
    prepared = prepare(sent)
    prepared.assign(100, leader_epoch=0)
    assert read_header(sent).base_offset == 0
    assert prepared.batches[0].header.base_offset == 100


@pytest.mark.parametrize("codec", ALL_CODECS)
def test_log_append_time_takes_the_place_of_the_producers_time(codec: Compression) -> None:
    prepared = prepare(batch_of(3, compression=codec, timestamp=1), LOG_APPEND_TIME)
    prepared.assign(0, leader_epoch=0, log_append_time=NOW + 5)
    (batch,) = prepared.batches
    assert batch.header.timestamp_type == TimestampType.LOG_APPEND_TIME
    assert batch.header.max_timestamp == NOW + 5
    assert crc_is_valid(batch.buffer, 0, batch.header)
    assert {record.timestamp for record in decode_records(batch.buffer)} == {NOW + 5}


def test_a_wrong_max_timestamp_is_put_right() -> None:
    (batch,) = prepare(patched(35, "!q", NOW - 1)).batches
    assert batch.header.max_timestamp == NOW + 2
    assert crc_is_valid(batch.buffer, 0, batch.header)


@pytest.mark.parametrize("source", ALL_CODECS)
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
def test_the_topics_codec_changes_nothing_but_the_compression(source: Compression, target: str) -> None:
    sent = batch_of(
        5, compression=source, producer_id=5, producer_epoch=1, base_sequence=7, transactional=True
    )
    prepared = prepare(bytearray(sent), replace(CONFIG, compression_type=target))
    (batch,) = prepared.batches
    wanted = {"uncompressed": Compression.NONE, "producer": source} | {c.name.lower(): c for c in Compression}
    before, after = read_header(sent), batch.header
    assert after.compression == wanted[target]
    assert crc_is_valid(batch.buffer, 0, after)
    assert decode_records(batch.buffer) == decode_records(sent)
    assert after._replace(batch_length=0, crc=0, attributes=0) == before._replace(
        batch_length=0, crc=0, attributes=0
    )
    assert after.is_transactional
    assert prepared.nbytes == after.size == len(batch.buffer)
    if target == "producer" or wanted[target] == source:
        assert bytes(batch.buffer) == bytes(sent)


def test_the_topics_compression_level_is_used() -> None:
    sent = build_batch([Record(-1, NOW, b"k", bytes(range(256)) * 400)])
    sizes = [
        prepare(sent, replace(CONFIG, compression_type="gzip", compression_gzip_level=level)).nbytes
        for level in (1, 9)
    ]
    assert sizes[0] > sizes[1]


def test_an_uncompressed_batch_may_be_larger_than_another_decompresses_to() -> None:
    sent = build_batch([Record(-1, NOW, b"k", bytes(3000))])
    config = replace(CONFIG, compression_type="gzip")
    prepared = prepare_batches(sent, config=config, origin=CLIENT, now_ms=NOW, max_decompressed=1000)
    (batch,) = prepared.batches
    assert (batch.header.compression, batch.header.record_count) == (Compression.GZIP, 1)


def test_a_batch_that_grows_too_large_by_recompression_is_refused() -> None:
    sent = build_batch([Record(-1, NOW, b"k", bytes(5000))], compression=Compression.ZSTD)
    config = replace(CONFIG, compression_type="uncompressed", max_message_bytes=1000)
    assert refused(sent, config).code == ErrorCode.MESSAGE_TOO_LARGE


# --- what is refused: the batch -----------------------------------------------------------------------------


def test_nothing_at_all_is_refused() -> None:
    assert refused(b"").code == ErrorCode.INVALID_RECORD


def test_a_second_batch_of_a_client_is_refused() -> None:
    assert refused(batch_of() + batch_of()).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("size", [1, 12, 17, 60, 61, 80])
def test_a_batch_that_is_cut_short_is_refused(size: int) -> None:
    assert refused(batch_of()[:size]).code == ErrorCode.INVALID_RECORD


def test_bytes_behind_the_batch_are_refused() -> None:
    assert refused(batch_of() + b"\0").code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [0, 1, 3, 127])
def test_other_message_formats_are_refused(magic: int) -> None:
    batch = batch_of()
    batch[16] = magic
    assert refused(batch).code == ErrorCode.INVALID_RECORD


def test_a_wrong_crc_is_a_corrupt_message_that_clients_send_again() -> None:
    batch = batch_of()
    batch[-1] ^= 1
    error = refused(batch)
    assert error.code == ErrorCode.CORRUPT_MESSAGE
    assert error.code.retriable


def test_a_batch_above_max_message_bytes_is_refused() -> None:
    batch = batch_of()
    prepare(bytes(batch), replace(CONFIG, max_message_bytes=len(batch)))
    config = replace(CONFIG, max_message_bytes=len(batch) - 1)
    assert refused(bytes(batch), config).code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    batch = batch_of()
    config = replace(CONFIG, segment_bytes=len(batch) - 1)
    assert refused(bytes(batch), config).code == ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(patched(0, "!q", 7), id="base offset"),
        pytest.param(patched(23, "!i", 3), id="last offset delta"),
        pytest.param(patched(23, "!i", -1), id="negative last offset delta"),
        pytest.param(patched(57, "!i", 2), id="fewer records declared"),
        pytest.param(patched(57, "!i", -1), id="negative record count"),
        pytest.param(patched(57, "!i", 0), id="no records"),
        pytest.param(patched(43, "!q", 5), id="producer id without a sequence"),
        pytest.param(batch_of(producer_id=5, producer_epoch=0, base_sequence=-1), id="negative sequence"),
        pytest.param(batch_of(producer_id=5, producer_epoch=-1, base_sequence=0), id="negative epoch"),
        pytest.param(batch_of(transactional=True), id="transaction without a producer id"),
        pytest.param(batch_of(control=True), id="control batch"),
    ],
)
def test_a_header_that_contradicts_itself_is_refused(batch: bytearray) -> None:
    assert refused(bytearray(batch)).code == ErrorCode.INVALID_RECORD


def test_a_record_count_that_contradicts_the_records_is_refused() -> None:
    batch = batch_of(3)
    struct.pack_into("!i", batch, 57, 4)
    struct.pack_into("!i", batch, 23, 3)
    assert refused(with_crc(batch)).code == ErrorCode.INVALID_RECORD


def test_an_unknown_codec_is_refused() -> None:
    assert refused(patched(21, "!h", 5)).code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("codec", ALL_CODECS)
def test_a_payload_that_is_none_is_refused(codec: Compression) -> None:
    batch = batch_of(compression=codec)
    batch[HEADER_SIZE:] = b"\xff" * (len(batch) - HEADER_SIZE)
    assert refused(with_crc(batch)).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_a_batch_that_decompresses_to_too_much_is_refused(codec: Compression) -> None:
    batch = build_batch([Record(-1, NOW, b"k", bytes(100_000))], compression=codec)
    with pytest.raises(DecompressedTooLargeError) as raised:
        prepare_batches(batch, config=CONFIG, origin=CLIENT, now_ms=NOW, max_decompressed=50_000)
    assert raised.value.code == ErrorCode.MESSAGE_TOO_LARGE


# --- what is refused: records -------------------------------------------------------------------------------


def mixed(*records: Record) -> bytearray:
    return build_batch(records, compression=Compression.GZIP)


def test_a_record_without_key_is_refused_by_a_compacted_topic() -> None:
    batch = mixed(Record(timestamp=NOW), Record(timestamp=NOW, key=b""), Record(timestamp=NOW))
    prepare(bytearray(batch))
    error = refused(batch, COMPACTED)
    assert error.code == ErrorCode.INVALID_RECORD
    assert isinstance(error, InvalidRecordsError)
    assert [index for index, _ in error.record_errors] == [0, 2]


def test_only_the_first_bad_record_of_a_large_batch_is_named() -> None:
    error = refused(batch_of(2000, key=None), COMPACTED)
    assert isinstance(error, InvalidRecordsError)
    assert [index for index, _ in error.record_errors] == [0]


WINDOW = LogConfig(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=500)


@pytest.mark.parametrize(
    ("timestamp", "config", "accepted"),
    [
        (NOW - 1000, WINDOW, True),
        (NOW - 1001, WINDOW, False),
        (NOW + 500, WINDOW, True),
        (NOW + 501, WINDOW, False),
        (-1, WINDOW, True),
        (0, CONFIG, True),
        (-2, CONFIG, True),
        (-(2**62), CONFIG, True),
        (-(2**63) + NOW, CONFIG, False),
        (-2, WINDOW, False),
        (2**62, CONFIG, False),
        (NOW + 3_600_001, CONFIG, False),
        (2**62, replace(WINDOW, message_timestamp_type="LogAppendTime"), True),
        (1, replace(WINDOW, message_timestamp_type="LogAppendTime"), True),
    ],
)
def test_timestamps_must_be_near_the_brokers_time(timestamp: int, config: LogConfig, accepted: bool) -> None:
    batch = mixed(Record(timestamp=NOW), Record(timestamp=timestamp), Record(timestamp=NOW))
    if accepted:
        prepare(batch, config)
        return
    error = refused(batch, config)
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert isinstance(error, InvalidRecordsError)
    assert [index for index, _ in error.record_errors] == [1]


@pytest.mark.parametrize("timestamp", [-2, -(2**40)])
@pytest.mark.parametrize("codec", ALL_CODECS)
def test_the_max_timestamp_of_records_before_1970_is_none_as_in_java(
    codec: Compression, timestamp: int
) -> None:
    batch = build_batch([Record(timestamp=timestamp, value=b"v")], compression=codec)
    (prepared,) = prepare(batch).batches
    assert (prepared.header.base_timestamp, prepared.header.max_timestamp) == (timestamp, -1)
    (record,) = decode_records(prepared.buffer, 0, prepared.header)
    assert record.timestamp == timestamp


@pytest.mark.parametrize("codec", ALL_CODECS)
def test_a_topic_with_create_time_takes_a_claimed_append_time_for_it(codec: Compression) -> None:
    batch = batch_of(compression=codec, timestamp_type=TimestampType.LOG_APPEND_TIME)
    claimed = read_header(batch)
    (prepared,) = prepare(batch).batches
    assert prepared.header.timestamp_type == TimestampType.CREATE_TIME
    assert prepared.header.max_timestamp == claimed.max_timestamp
    assert prepared.header.crc != claimed.crc
    prepare(prepared.buffer)


def test_a_claimed_append_time_must_be_near_the_brokers_time() -> None:
    batch = build_batch([Record(timestamp=NOW - 1001)], timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert refused(batch, WINDOW).code == ErrorCode.INVALID_TIMESTAMP


def test_a_producer_must_not_claim_log_append_time_for_a_topic_with_it_or_without_a_time() -> None:
    batch = batch_of(timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert refused(batch, LOG_APPEND_TIME).code == ErrorCode.INVALID_TIMESTAMP
    without = build_batch([Record(timestamp=-1)], timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert refused(without).code == ErrorCode.INVALID_TIMESTAMP


# --- other origins ------------------------------------------------------------------------------------------


def end_marker(offset: int = 0) -> bytearray:
    record = Record(-1, NOW, control_record_key(ControlType.ABORT), end_txn_marker_value(3))
    return build_batch(
        [record], base_offset=offset, producer_id=1, producer_epoch=0, transactional=True, control=True
    )


def test_a_coordinator_may_write_several_batches_and_markers() -> None:
    prepared = prepare(batch_of(2) + end_marker() + batch_of(1), COMPACTED, COORDINATOR)
    assert prepared.assign(10, leader_epoch=1) == 14
    assert [batch.header.base_offset for batch in prepared.batches] == [10, 12, 13]
    assert [batch.marker for batch in prepared.batches] == [None, TransactionMarker(True, 3, NOW), None]
    assert (prepared.record_count, prepared.nbytes) == (4, sum(len(b.buffer) for b in prepared.batches))


def test_a_marker_is_never_compressed() -> None:
    (batch,) = prepare(end_marker(), replace(CONFIG, compression_type="zstd"), COORDINATOR).batches
    assert batch.header.compression == Compression.NONE


def test_a_follower_takes_batches_as_the_leader_wrote_them() -> None:
    leaders = batch_of(3, base_offset=7, leader_epoch=2) + end_marker(10) + batch_of(1, base_offset=20)
    prepared = prepare(leaders, replace(COMPACTED, max_message_bytes=1, segment_bytes=1), REPLICATION)
    assert [batch.header.base_offset for batch in prepared.batches] == [7, 10, 20]
    leaders[-1] ^= 1
    assert refused(leaders, origin=REPLICATION).code == ErrorCode.CORRUPT_MESSAGE


# --- heavy work ---------------------------------------------------------------------------------------------


def is_heavy(records: bytes | bytearray, config: LogConfig = CONFIG) -> bool:
    return effort(memoryview(records), config)[0]


def test_only_large_compressed_batches_are_heavy() -> None:
    small, large = b"x" * 1000, bytes(range(256)) * 1000
    for codec in ALL_CODECS:
        light = build_batch([Record(-1, NOW, b"k", small)], compression=codec)
        assert not is_heavy(light)
    plain = build_batch([Record(-1, NOW, b"k", large)])
    assert not is_heavy(plain)
    assert is_heavy(plain, replace(CONFIG, compression_type="gzip"))
    assert not is_heavy(plain, replace(CONFIG, compression_type="uncompressed"))
    plain[22] |= Compression.GZIP
    assert is_heavy(plain)
    assert not is_heavy(b"")
    assert not is_heavy(b"\2" * 16)


def test_bytes_are_slow_to_check_if_they_are_compressed_or_the_walker_is_not_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def slow(records: bytes | bytearray) -> int:
        return effort(memoryview(records), CONFIG)[1]

    packed, plain = batch_of(compression=Compression.LZ4), batch_of()
    if record_walker.Walker is not record_walker.PureWalker:
        assert [slow(packed), slow(plain), slow(b"\2" * 16)] == [len(packed), 0, 0]
    without_compiled_parts(monkeypatch)
    assert [slow(packed), slow(plain), slow(b"\2" * 16)] == [len(packed), len(plain), 16]


# --- the fast way -------------------------------------------------------------------------------------------


@given(
    st.builds(
        batch_of,
        st.integers(1, 3),
        timestamp=st.sampled_from([-1, 5, NOW - 1000, NOW, NOW + 1000, NOW + 2 * 3_600_000]),
        key=st.sampled_from([None, b"k"]),
        compression=st.sampled_from([Compression.NONE, Compression.NONE, Compression.LZ4]),
        producer_id=st.integers(-1, 1),
        producer_epoch=st.integers(-1, 1),
        base_sequence=st.integers(-1, 1),
        transactional=st.booleans(),
        control=st.sampled_from([False, False, False, True]),
    ),
    st.sampled_from([b"", b"", b"", b"\0"]),
    st.sampled_from(
        [
            CONFIG,
            COMPACTED,
            LOG_APPEND_TIME,
            LogConfig(max_message_bytes=100),
            LogConfig(segment_bytes=100),
            LogConfig(compression_type="zstd"),
            LogConfig(compression_type="uncompressed"),
            LogConfig(message_timestamp_before_max_ms=500, message_timestamp_after_max_ms=500),
        ]
    ),
)
def test_a_plain_batch_is_prepared_as_any_other_one(batch: bytearray, rest: bytes, config: LogConfig) -> None:
    def outcome() -> object:
        try:
            prepared = prepare(bytes(batch + rest), config)
        except KafkaError as error:
            return error.code, error.message
        batches = [(each.header, bytes(each.buffer), each.marker) for each in prepared.batches]
        return batches, prepared.nbytes, prepared.record_count

    found = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validate, "read_plain_batch", lambda _: None)
        assert outcome() == found


# --- hostile bytes ------------------------------------------------------------------------------------------


@given(
    st.binary(max_size=200)
    | st.builds(
        lambda codec, position, value: with_crc(
            bytearray(
                bytes(batch_of(compression=codec))[:position]
                + bytes([value])
                + bytes(batch_of(compression=codec))[position + 1 :]
            )
        ),
        st.sampled_from(ALL_CODECS),
        st.integers(0, 100),
        st.integers(0, 255),
    )
)
def test_whatever_comes_is_stored_readable_or_refused(records: bytes) -> None:
    try:
        prepared = prepare(records)
    except KafkaError:
        return
    prepared.assign(50, leader_epoch=0)
    for batch in prepared.batches:
        assert crc_is_valid(batch.buffer, 0, batch.header)
        assert [record.offset for record in decode_records(batch.buffer)] == list(
            range(batch.header.base_offset, batch.header.next_offset)
        )
