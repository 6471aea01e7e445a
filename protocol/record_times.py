"""Finds a record of a batch by its timestamp, and looks at nothing else of the records.

Of each record only the head is read: its length, timestamp delta and offset delta. Compressed records stream
through a piece at a time, so a small batch that decompresses to a large one takes no memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkapy.protocol.compression import MAX_DECOMPRESSED, Buffer, decompress_chunks
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import HEADER_SIZE, MAGIC, BatchHeader, TimestampType, read_varint

_PIECE = 1 << 20
"""Of records that are not compressed."""

_MIN_RECORD_LENGTH = 6
"""Attributes, timestamp delta, offset delta, null key, null value, header count: one byte each."""


class RecordTime(NamedTuple):
    """The place of a record in time and in its log."""

    timestamp: int
    """Milliseconds since 1970."""
    offset: int


def first_record_at(
    batch: Buffer, header: BatchHeader, *, timestamp: int, start_offset: int, limit: int = MAX_DECOMPRESSED
) -> RecordTime | None:
    """The first record that is at least as new as `timestamp` and not below `start_offset`.

    Args:
        batch: all of its bytes. The CRC is not looked at.
        limit: the most bytes to which the records may decompress.

    Raises:
        DecompressedSizeError: they decompress to more.
        DecodeError: the records cannot be read.
    """
    for record in _times(batch, header, limit):
        if record[0] >= timestamp and record[1] >= start_offset:
            return RecordTime(*record)
    return None


def newest_record(
    batch: Buffer, header: BatchHeader, *, start_offset: int, limit: int = MAX_DECOMPRESSED
) -> RecordTime | None:
    """The first record that has the highest timestamp of those not below `start_offset`. Raises as above."""
    best: tuple[int, int] | None = None
    for record in _times(batch, header, limit):
        if record[1] >= start_offset and (best is None or record[0] > best[0]):
            best = record
    return None if best is None else RecordTime(*best)


def _times(batch: Buffer, header: BatchHeader, limit: int) -> Iterator[tuple[int, int]]:
    """Timestamp and offset of each record. A hot loop: most varints have one byte."""
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.timestamp_type == TimestampType.LOG_APPEND_TIME
    left = header.record_count
    head = b""
    """The beginning of a record that the last piece cut through within its head."""
    skip = 0
    """Bytes of the record before that are still to come."""
    for piece in _pieces(batch, header, limit):
        size = len(piece)
        if skip >= size:
            skip -= size
            continue
        data, at, skip = head + piece[skip:] if head or skip else piece, 0, 0
        size = len(data)
        while at < size:
            try:
                length = data[at]
                if length < 0x80:
                    length = length >> 1 ^ -(length & 1)
                    start = at + 1
                else:
                    length, start = read_varint(data, at, 32)
                delta = data[start + 1]
                if delta < 0x80:
                    delta = delta >> 1 ^ -(delta & 1)
                    position = start + 2
                else:
                    delta, position = read_varint(data, start + 1, 64)
                offset = data[position]
                if offset < 0x80:
                    offset = offset >> 1 ^ -(offset & 1)
                    position += 1
                else:
                    offset, position = read_varint(data, position, 32)
            except IndexError:
                break
            at = start + length
            if length < _MIN_RECORD_LENGTH or position > at:
                raise DecodeError("a record is shorter than a record can be")
            left -= 1
            if left < 0:
                raise DecodeError("more records than the batch declares")
            yield header.max_timestamp if append_time else base_timestamp + delta, base_offset + offset
        head = data[at:]
        skip = max(at - size, 0)
    if head or skip or left:
        raise DecodeError("the records end before the batch does")


def _pieces(batch: Buffer, header: BatchHeader, limit: int) -> Iterator[bytes]:
    if header.magic != MAGIC:
        raise DecodeError(f"message format {header.magic} is not supported")
    if header.size > len(batch):
        raise DecodeError(f"a batch of {header.size} bytes where {len(batch)} are left")
    payload = memoryview(batch)[HEADER_SIZE : header.size]
    codec = header.compression
    if codec:
        yield from decompress_chunks(codec, payload, limit=limit)
    else:
        for start in range(0, len(payload), _PIECE):
            yield bytes(payload[start : start + _PIECE])
