"""Plain batches, as most batches are: reads and checks one in one call, and builds one.

A batch is plain if it is uncompressed, is whole and alone in its buffer, and there is nothing unusual in it:

- magic 2, base offset 0, and no attribute but the transactional one;
- a last offset delta and a max timestamp that fit its records;
- records that every consumer can read (record_walker.py).

The CRC of a batch that is read is not checked. What is wrong or unusual in another batch, the general way
tells (`read_header`, `walk_batch`). Those that are built have records without headers, with one timestamp.
They may be control batches, too.

There are two twins of each function: the compiled one (`_walker.c`) is used if it was built, unless
KAFKAPY_PURE_PYTHON is set and not empty in the environment. Tests hold that both agree on every input.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, TypeAlias

from kafkapy.protocol.compiled import compiled_twin
from kafkapy.protocol.compression import Buffer
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.record_walker import PureWalker
from kafkapy.protocol.records import (
    CONTROL,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
    append_varint,
    header_of,
    read_header,
    write_crc,
)

KeyValue: TypeAlias = tuple[bytes, bytes | None]
"""The key and value of a record. The value of a tombstone is None."""

PlainBatch: TypeAlias = tuple[tuple[int, ...], int, int]
"""The fields of the header (`records.header_of`), the least timestamp, and the index of the first null key.

The timestamp is that of the records that have one, or NO_TIMESTAMP. The index is -1 if there is no null key.
"""


def read_plain_batch_purely(data: Buffer, /) -> PlainBatch | None:
    """Read the batch that fills `data`; None if it is not plain."""
    try:
        header = read_header(data)
    except DecodeError:
        return None
    if header.magic != MAGIC or header.size != len(data):
        return None
    if header.base_offset or header.attributes & ~TRANSACTIONAL:
        return None
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
        return None
    walker = PureWalker(header.base_timestamp, header.record_count)
    walker.feed(memoryview(data)[HEADER_SIZE:])
    _, max_timestamp, _, min_timestamp, first_null_key = walker.summary()
    if walker.finish() is not None or max_timestamp != header.max_timestamp:
        return None
    return tuple(header), min_timestamp, first_null_key


read_plain_batch = compiled_twin("kafkapy.protocol._walker", "read_plain_batch", read_plain_batch_purely)
"""The twin that is used."""


def build_plain_batch(
    pairs: list[KeyValue],
    timestamp: int,
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    transactional: bool = False,
    control: bool = False,
) -> tuple[BatchHeader, memoryview]:
    """Build a batch of at least one record as `build_batch` does, many times as fast.

    Returns its header, and its writable bytes.
    """
    attributes = (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0)
    batch = memoryview(_lay_out(pairs, timestamp, producer_id, producer_epoch, attributes))
    crc, count = write_crc(batch), len(pairs)
    fields = (
        0, len(batch) - LOG_OVERHEAD, NO_PARTITION_LEADER_EPOCH, MAGIC, crc, attributes, count - 1,
        timestamp, timestamp, producer_id, producer_epoch, NO_SEQUENCE, count,
    )  # fmt: skip
    return header_of(fields), batch


def lay_out_plain_batch_purely(
    pairs: list[KeyValue], timestamp: int, producer_id: int, producer_epoch: int, attributes: int, /
) -> bytearray:
    """A batch whose CRC is 0.

    Raises:
        ValueError: there is no record.
    """
    parts = [_ROOM_FOR_HEADER]
    delta = -1
    for delta, (key, value) in enumerate(pairs):
        before, between = _framing(delta, len(key), -1 if value is None else len(value))
        parts += before, key, between, value or b"", _NO_HEADERS
    if delta < 0:
        raise ValueError("a batch needs a record")
    batch = bytearray().join(parts)
    HEADER.pack_into(
        batch, 0, 0, len(batch) - LOG_OVERHEAD, NO_PARTITION_LEADER_EPOCH, MAGIC, 0, attributes, delta,
        timestamp, timestamp, producer_id, producer_epoch, NO_SEQUENCE, delta + 1,
    )  # fmt: skip
    return batch


_ROOM_FOR_HEADER: Final = bytes(HEADER_SIZE)
_NO_HEADERS: Final = b"\0"


@lru_cache(maxsize=4096)
def _framing(delta: int, key_length: int, value_length: int) -> tuple[bytes, bytes]:
    """The bytes before the key of a plain record, and between key and value.

    The length of null is -1.
    """
    head, between = bytearray(2), bytearray()  # without attributes and timestamp delta
    append_varint(head, delta)
    append_varint(head, key_length)
    append_varint(between, value_length)
    before = bytearray()
    append_varint(before, len(head) + key_length + len(between) + max(value_length, 0) + len(_NO_HEADERS))
    return bytes(before + head), bytes(between)


_lay_out = compiled_twin("kafkapy.protocol._walker", "lay_out_plain_batch", lay_out_plain_batch_purely)
