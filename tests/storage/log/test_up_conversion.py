"""Message sets as record batches.

Tested are what is stored of them, and the limits that they are held to.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.protocol.compression import Compression
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.legacy_records import build_message_set, decode_message_set
from kafkapy.protocol.records import Record, decode_records
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.up_conversion import holds_messages, is_heavy_message_set, prepare_messages
from kafkapy.storage.log.validate import PreparedBatches
from tests.protocol.record_strategies import field

CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
NOW_MS = 1_700_000_000_000
LENIENT = LogConfig()

messages = st.lists(
    st.builds(Record, timestamp=st.integers(-1, NOW_MS), key=field, value=field), min_size=1, max_size=12
)


def prepare(data: bytes | bytearray, config: LogConfig = LENIENT, **options: int) -> PreparedBatches:
    prepared = prepare_messages(data, config=config, now_ms=NOW_MS, **options)
    assert prepared is not None
    return prepared


def some(count: int, size: int) -> list[Record]:
    return [Record(i, NOW_MS, b"k", bytes(size)) for i in range(count)]


@given(messages, st.sampled_from([0, 1]), st.sampled_from(CODECS), st.sampled_from(Compression))
def test_what_is_stored_is_what_a_client_would_read(
    found: list[Record], magic: int, codec: Compression, wanted: Compression
) -> None:
    found = [replace(record, offset=i) for i, record in enumerate(found)]
    data = build_message_set(found, magic, compression=codec)
    name = "uncompressed" if wanted is Compression.NONE else wanted.name.lower()
    for config, stored_with in ((LENIENT, codec), (LogConfig(compression_type=name), wanted)):
        prepared = prepare(data, config)
        prepared.assign(100, leader_epoch=3)
        (batch,) = prepared.batches
        assert (batch.header.compression, prepared.record_count) == (stored_with, len(found))
        assert [(r.offset - 100, r.timestamp, r.key, r.value) for r in decode_records(batch.buffer)] == [
            (r.offset, r.timestamp, r.key, r.value) for r in decode_message_set(data)
        ]
        assert batch.header.max_timestamp == max(r.timestamp for r in decode_message_set(data))


@pytest.mark.parametrize(
    ("config", "count", "size", "codec", "code"),
    [
        (LogConfig(max_message_bytes=500), 1, 500, Compression.NONE, ErrorCode.MESSAGE_TOO_LARGE),
        (LogConfig(max_message_bytes=500), 5, 200, Compression.NONE, ErrorCode.MESSAGE_TOO_LARGE),
        (LogConfig(max_message_bytes=500), 5, 200, Compression.GZIP, None),
        (
            LogConfig(max_message_bytes=500, compression_type="uncompressed"),
            5,
            200,
            Compression.GZIP,
            ErrorCode.MESSAGE_TOO_LARGE,
        ),
        (LogConfig(max_message_bytes=500, compression_type="gzip"), 5, 200, Compression.NONE, None),
        (LogConfig(segment_bytes=500), 5, 200, Compression.NONE, ErrorCode.RECORD_LIST_TOO_LARGE),
        (LogConfig(segment_bytes=500), 5, 200, Compression.GZIP, None),
    ],
)
def test_limits_hold_for_each_message_and_for_the_batch(
    config: LogConfig, count: int, size: int, codec: Compression, code: ErrorCode | None
) -> None:
    data = build_message_set(some(count, size), 1, compression=codec)
    if code is None:
        assert prepare(data, config).record_count == count
        return
    with pytest.raises(KafkaError) as raised:
        prepare(data, config)
    assert raised.value.code is code


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_wrapper_may_decompress_to_so_much_and_not_more(codec: Compression) -> None:
    data = build_message_set(some(10, 10_000), 0, compression=codec)
    with pytest.raises(KafkaError) as raised:
        prepare(data, max_decompressed=100_000)
    assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert prepare(data, max_decompressed=200_000).record_count == 10


def test_large_and_compressed_sets_are_heavy() -> None:
    assert not is_heavy_message_set(build_message_set(some(3, 100), 1))
    assert is_heavy_message_set(build_message_set(some(3, 10_000), 1))
    assert is_heavy_message_set(build_message_set(some(3, 100), 1, compression=Compression.LZ4))
    assert not is_heavy_message_set(b"")
    assert holds_messages(b"")
