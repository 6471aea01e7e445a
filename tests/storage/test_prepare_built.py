"""Batches that the broker builds are appended without another check.

It is as if they had been checked like those of clients.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.records import Record, build_batch, read_header
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.validate import AppendOrigin, PreparedBatches, prepare_batches, prepare_built

NOW_MS = 1_700_000_000_000
CODECS = ("producer", "uncompressed", "gzip", "lz4", "zstd", "snappy")
records = st.lists(
    st.builds(
        Record,
        st.just(-1),
        st.integers(NOW_MS - 10, NOW_MS),
        st.binary(max_size=40),
        st.none() | st.binary(max_size=40),
        st.just([]),
    ),
    min_size=1,
    max_size=5,
)


def seen(prepared: PreparedBatches) -> object:
    return [(each.header, bytes(each.buffer), each.marker) for each in prepared.batches], (
        prepared.nbytes,
        prepared.record_count,
    )


@given(records, st.sampled_from(CODECS), st.booleans())
def test_a_built_batch_is_prepared_as_a_checked_one(
    batch: list[Record], codec: str, transactional: bool
) -> None:
    producer = {"producer_id": 7, "producer_epoch": 0, "transactional": True} if transactional else {}
    built = build_batch(batch, **producer)  # type: ignore[arg-type]
    config = LogConfig(cleanup_policy=frozenset({"compact"}), compression_type=codec)
    origin = AppendOrigin.COORDINATOR
    checked = prepare_batches(memoryview(bytearray(built)), config=config, origin=origin, now_ms=NOW_MS)
    assert seen(prepare_built(read_header(built), memoryview(built), config=config, now_ms=NOW_MS)) == seen(
        checked
    )


@pytest.mark.parametrize(
    ("config", "error"),
    [
        (LogConfig(max_message_bytes=100), ErrorCode.MESSAGE_TOO_LARGE),
        (LogConfig(segment_bytes=100), ErrorCode.RECORD_LIST_TOO_LARGE),
    ],
)
def test_a_built_batch_that_is_too_large_is_refused(config: LogConfig, error: ErrorCode) -> None:
    batch = build_batch([Record(-1, NOW_MS, b"k", bytes(200), [])])
    with pytest.raises(KafkaError) as caught:
        prepare_built(read_header(batch), memoryview(batch), config=config, now_ms=NOW_MS)
    assert caught.value.code is error
