"""Finds a record of a batch by its timestamp, without decoding the records.

Only the head of each record is read: its length, timestamp delta and offset delta. Compressed records are
streamed in pieces, so a small batch that decompresses to a large one takes little memory. The compiled twin
(`_walker.c`) is used if it was built, as in record_walker.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkapy.protocol.compiled import compiled_twin
from kafkapy.protocol.compression import MAX_DECOMPRESSED, Buffer, decompress_chunks
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.record_walker import MIN_RECORD_LENGTH
from kafkapy.protocol.records import HEADER_SIZE, MAGIC, BatchHeader, TimestampType, read_varint

_PIECE = 1 << 20
"""The bytes of a piece of uncompressed records."""

_LEAST, _MOST = -(2**63), 2**63 - 1


class RecordTime(NamedTuple):
    """The timestamp and the offset of a record."""

    timestamp: int
    """Milliseconds since 1970."""
    offset: int


def first_record_at(
    batch: Buffer, header: BatchHeader, *, timestamp: int, start_offset: int, limit: int = MAX_DECOMPRESSED
) -> RecordTime | None:
    """The first record that is at least as new as `timestamp` and not below `start_offset`.

    Args:
        batch: all of its bytes. The CRC is not checked.
        limit: the most bytes to which the records may decompress.

    Raises:
        DecompressedSizeError: the records decompress to more bytes.
        DecodeError: the records cannot be read.
    """
    if header.timestamp_type == TimestampType.LOG_APPEND_TIME:
        if header.max_timestamp < timestamp:
            return None
        delta = _LEAST
    else:
        delta = max(timestamp - header.base_timestamp, _LEAST)
    return _search(batch, header, delta, start_offset, limit, newest=False)


def newest_record(
    batch: Buffer, header: BatchHeader, *, start_offset: int, limit: int = MAX_DECOMPRESSED
) -> RecordTime | None:
    """Return the first record with the highest timestamp of those not below `start_offset`.

    Raises:
        DecodeError: as `first_record_at`.
    """
    same = header.timestamp_type == TimestampType.LOG_APPEND_TIME
    return _search(batch, header, _LEAST, start_offset, limit, newest=not same)


def _search(
    batch: Buffer, header: BatchHeader, delta: int, start_offset: int, limit: int, *, newest: bool
) -> RecordTime | None:
    """The first record with at least this timestamp delta, or the newest of these records."""
    least_offset = max(start_offset - header.base_offset, _LEAST)
    if delta > _MOST or least_offset > _MOST:
        return None
    best: RecordTime | None = None
    left = header.record_count
    head = b""
    """The beginning of a record whose head continues in the next piece."""
    skip = 0
    """The bytes of the current record that are still to come."""
    for piece in _pieces(batch, header, limit):
        if skip >= len(piece):
            skip -= len(piece)
            continue
        data, skip = head + piece[skip:] if head or skip else piece, 0
        try:
            end, count, timestamp_delta, offset_delta = find_time(data, delta, least_offset, newest)
        except ValueError as error:
            raise DecodeError(str(error)) from None
        left -= count
        if left < 0:
            raise DecodeError("more records than the batch declares")
        if timestamp_delta is not None and offset_delta is not None:
            timestamp = header.base_timestamp + timestamp_delta
            if header.timestamp_type == TimestampType.LOG_APPEND_TIME:
                timestamp = header.max_timestamp
            best = RecordTime(timestamp, header.base_offset + offset_delta)
            if not newest or timestamp_delta == _MOST:
                return best
            delta = timestamp_delta + 1
        head = data[end:]
        skip = max(end - len(data), 0)
    if head or skip or left:
        raise DecodeError("the records end before the batch does")
    return best


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


# --- the twins ----------------------------------------------------------------------------------------------

Heads = tuple[int, int, int | None, int | None]
"""The start of the next record, the number of records before it, and the deltas found.

The next record may begin after the piece. The timestamp and offset deltas are None if no record fits."""


def find_time_purely(data: bytes, timestamp: int, offset: int, newest: bool, /) -> Heads:
    """Walk over the complete heads in `data`, up to a record with at least these deltas.

    With `newest`, the walk continues, to find a record with a higher timestamp delta.

    Raises:
        ValueError: a record cannot be read.
    """
    found: tuple[int, int] | tuple[None, None] = None, None
    at, count, size = 0, 0, len(data)
    while at < size:
        try:
            length, start = read_varint(data, at, 32)
            timestamp_delta, position = read_varint(data, start + 1, 64)
            offset_delta, position = read_varint(data, position, 32)
        except IndexError:
            break
        if length < MIN_RECORD_LENGTH or position > start + length:
            raise DecodeError("a record is shorter than a record can be")
        at = start + length
        count += 1
        if timestamp_delta >= timestamp and offset_delta >= offset:
            found = timestamp_delta, offset_delta
            if not newest or timestamp_delta == _MOST:
                break
            timestamp = timestamp_delta + 1
    return at, count, *found


find_time = compiled_twin("kafkapy.protocol._walker", "find_time", find_time_purely)
"""The function that is used."""
