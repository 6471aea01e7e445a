"""Records as an Arrow record batch with the columns of Spark's Kafka source.

    key            binary            null if the record has none
    value          binary            null for a tombstone
    topic          string
    partition      int32
    offset         int64
    timestamp      timestamp[us, UTC]
    timestampType  int32             0 for the producer's clock, 1 for the broker's
    headers        list<struct<key: string, value: binary>>, null if the record has none; may be left out

Keys and values are copied from the buffer that was read without an object for each. The positions alone make
an array over the complete buffer, whose elements are alternately a gap and a value; `take` copies the values
out of it. Numbers are passed as buffers: `pyarrow.array` imports pandas if it is installed, which takes each
Spark worker longer than reading a hundred thousand records.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkapy.log.record_columns import Fields, RecordColumns
from kafkapy.protocol.compression import Buffer
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.types import TopicPartition

HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_TIMESTAMP_TYPE = pa.timestamp("us", tz="UTC")
_MAX_MILLISECONDS = (2**63 - 1) // 1000


def schema(*, headers: bool) -> pa.Schema:
    """Return the columns of `record_batch`."""
    columns = [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _TIMESTAMP_TYPE),
        ("timestampType", pa.int32()),
    ]
    return pa.schema([*columns, ("headers", pa.list_(HEADER_TYPE))] if headers else columns)


def record_batch(topic_partition: TopicPartition, columns: RecordColumns, *, headers: bool) -> pa.RecordBatch:
    """Return the records as rows.

    Raises:
        DecodeError: a timestamp is out of range in microseconds, which Spark uses.
    """
    rows = len(columns)
    arrays = [
        _byte_array(columns.data, columns.keys),
        _byte_array(columns.data, columns.values),
        _repeated(topic_partition.topic, rows),
        _numbers(pa.int32(), np.full(rows, topic_partition.partition, np.int32)),
        _numbers(pa.int64(), columns.offsets),
        _microseconds(columns.timestamps),
        _numbers(pa.int32(), columns.timestamp_types),
    ]
    if headers:
        arrays.append(_headers(columns))
    return pa.RecordBatch.from_arrays(arrays, schema=schema(headers=headers))


def _byte_array(data: Buffer, fields: Fields) -> pa.Array:
    """Return the fields, which are in order in `data`, as a binary array."""
    rows = len(fields.at)
    edges = np.empty(2 * rows + 1, np.int32)
    edges[0] = 0
    edges[1::2] = fields.at
    edges[2::2] = fields.at + np.maximum(fields.lengths, 0)
    pieces = pa.Array.from_buffers(
        pa.binary(), 2 * rows, [None, pa.py_buffer(edges), pa.py_buffer(data)], null_count=0
    )
    there = fields.lengths >= 0
    wanted = np.arange(1, 2 * rows, 2, dtype=np.int32)
    return pieces.take(_numbers(pa.int32(), wanted, None if there.all() else there))


def _numbers(
    kind: pa.DataType, values: npt.NDArray[np.generic], there: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """Return the numbers as an Arrow array of the same layout, null where one is not `there`."""
    return pa.Array.from_buffers(kind, len(values), [_bits(there), pa.py_buffer(values)])


def _bits(there: npt.NDArray[np.bool_] | None) -> pa.Buffer | None:
    return None if there is None else pa.py_buffer(np.packbits(there, bitorder="little"))


def _repeated(text: str, rows: int) -> pa.Array:
    content = text.encode()
    edges = np.arange(rows + 1, dtype=np.int32) * np.int32(len(content))
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(edges), pa.py_buffer(content * rows)])


def _microseconds(milliseconds: npt.NDArray[np.int64]) -> pa.Array:
    if milliseconds.size and max(int(milliseconds.max()), -int(milliseconds.min())) > _MAX_MILLISECONDS:
        raise DecodeError("a timestamp that is out of range in microseconds")
    return _numbers(_TIMESTAMP_TYPE, milliseconds * 1000)


def _headers(columns: RecordColumns) -> pa.Array:
    counts = columns.header_counts
    rows = len(counts)
    if not counts.any():
        return pa.nulls(rows, pa.list_(HEADER_TYPE))
    pairs = pa.StructArray.from_arrays(
        [
            _text(_byte_array(columns.data, columns.header_keys)),
            _byte_array(columns.data, columns.header_values),
        ],
        fields=list(HEADER_TYPE),
    )
    edges = np.zeros(rows + 1, np.int32)
    np.cumsum(counts, out=edges[1:])
    buffers = [_bits(counts > 0), pa.py_buffer(edges)]
    return pa.Array.from_buffers(pa.list_(HEADER_TYPE), rows, buffers, children=[pairs])


def _text(octets: pa.Array) -> pa.Array:
    """Decode UTF-8, with a replacement character for what is not UTF-8.

    Apache Kafka stores header keys that are not UTF-8, and its Java client decodes them in this way.
    """
    try:
        return octets.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([octet.as_py().decode(errors="replace") for octet in octets], pa.string())
