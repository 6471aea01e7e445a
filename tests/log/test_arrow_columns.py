"""Rows as Spark's Kafka source has them: columns, types, nulls."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kafkapy.log.arrow_columns import HEADER_TYPE, record_batch, schema
from kafkapy.log.record_columns import columns_of, decode_columns
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import Record, read_header
from kafkapy.protocol.types import TopicPartition
from tests.protocol.record_strategies import raw_batch, raw_record, varint

TP = TopicPartition("überweisungen", 7)


def test_columns_and_types_are_those_of_the_kafka_source() -> None:
    rows = record_batch(TP, columns_of([Record(3, 1500, b"k", b"v", [("h", b"1")])], [1]), headers=True)
    assert rows.schema == pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("timestampType", pa.int32()),
            ("headers", pa.list_(HEADER_TYPE)),
        ]
    )
    assert rows.drop_columns("timestamp").to_pylist() == [
        {
            "key": b"k",
            "value": b"v",
            "topic": "überweisungen",
            "partition": 7,
            "offset": 3,
            "timestampType": 1,
            "headers": [{"key": "h", "value": b"1"}],
        }
    ]
    assert rows.column("timestamp").cast(pa.int64()).to_pylist() == [1_500_000]
    rows.validate(full=True)


def test_headers_can_be_left_out() -> None:
    rows = record_batch(TP, columns_of([Record(0, 0)], [0]), headers=False)
    assert rows.schema == schema(headers=False)
    assert "headers" not in rows.schema.names


def test_nulls_stay_apart_from_what_is_empty() -> None:
    records = [
        Record(0, 0, None, None),
        Record(1, 0, b"", b""),
        Record(2, 0, b"a", None, [("", None), ("x", b"")]),
        Record(3, 0, None, b"b", [("y", b"1")]),
    ]
    rows = record_batch(TP, columns_of(records, [0] * 4), headers=True)
    rows.validate(full=True)
    assert rows.column("key").to_pylist() == [None, b"", b"a", None]
    assert rows.column("value").to_pylist() == [None, b"", None, b"b"]
    assert rows.column("headers").to_pylist() == [
        None,
        None,
        [{"key": "", "value": None}, {"key": "x", "value": b""}],
        [{"key": "y", "value": b"1"}],
    ]


def test_no_records_are_no_rows() -> None:
    for headers in (True, False):
        rows = record_batch(TP, columns_of([], []), headers=headers)
        assert (rows.num_rows, rows.schema) == (0, schema(headers=headers))


def test_a_record_without_a_timestamp_has_that_of_the_java_client() -> None:
    rows = record_batch(TP, columns_of([Record(0, -1)], [0]), headers=True)
    assert rows.column("timestamp").cast(pa.int64()).to_pylist() == [-1000]


def test_a_timestamp_that_microseconds_cannot_hold_is_refused() -> None:
    with pytest.raises(DecodeError, match="out of range in microseconds"):
        record_batch(TP, columns_of([Record(0, 2**62)], [0]), headers=True)


def test_a_header_key_that_is_not_utf_8_is_read_as_java_reads_it() -> None:
    header = varint(1) + varint(3) + b"a\xffb" + varint(1) + b"v"
    batch = raw_batch(raw_record(headers=header), 1)
    rows = record_batch(TP, decode_columns(batch, [(0, read_header(batch))]), headers=True)
    assert rows.column("headers").to_pylist() == [[{"key": "a\ufffdb", "value": b"v"}]]
