"""The first half of compaction: adds the keys of batches to an offset map.

`index_batches` walks over the batches in a buffer, and stops for one of these reasons:

    END      the buffer ends, perhaps inside a batch
    SPECIAL  the caller has to handle a batch: compressed, transactional, control, or of an old format
    FULL     the map has no room for a key; the keys of the records before it are in the map
    BAD      the bytes are not a batch: a wrong CRC, or offsets (which the CRC does not cover) out of order

`index_records` does the same for the decompressed records of one batch. The compiled implementation
(`_key_index.c`) is used if it was built, unless KAFKAPY_PURE_PYTHON is set in the environment and not empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from kafkapy.protocol.compiled import compiled_twin
from kafkapy.protocol.compression import CODEC_MASK, Buffer
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import (
    CONTROL,
    HEADER_SIZE,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL,
    BatchHeader,
    crc_is_valid,
    read_header,
    read_varint,
)
from kafkapy.storage.cleaning.offset_map import Slots, find, key_hash, put

END: Final = 0
SPECIAL: Final = 1
FULL: Final = 2
BAD: Final = 3

IndexBatches: TypeAlias = Callable[
    [Slots, int, int, int, int, Buffer, int, int, int, int], tuple[int, int, int, int, int, int]
]
IndexRecords: TypeAlias = Callable[[Slots, int, int, int, int, Buffer, int, int], tuple[int, int, int, int]]


class RawRecord(NamedTuple):
    """The fields of a record that compaction reads, and their positions."""

    start: int
    """The position of the record's length."""
    body: int
    """The position after the length."""
    after_timestamp: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    has_value: bool


def iter_raw_records(data: bytes, count: int) -> Iterator[RawRecord]:
    """Each of the `count` records that fill `data`.

    Raises:
        DecodeError: `data` does not have exactly that many records.
    """
    at = 0
    try:
        for _ in range(count):
            start = at
            length, body = read_varint(data, at, 32)
            end = body + length
            if length < 1 or end > len(data):
                raise DecodeError("a record goes beyond the end of its batch")
            timestamp_delta, after_timestamp = read_varint(data, body + 1, 64)
            offset_delta, at = read_varint(data, after_timestamp, 32)
            key_size, at = read_varint(data, at, 32)
            key = data[at : at + key_size] if key_size >= 0 else None
            value_size, value_at = read_varint(data, at + max(key_size, 0), 32)
            beyond = value_at + max(value_size, 0) > end
            if offset_delta < 0 or key_size < -1 or value_size < -1 or beyond:
                raise DecodeError("a record's fields do not fit its length")
            yield RawRecord(
                start, body, after_timestamp, end, timestamp_delta, offset_delta, key, value_size >= 0
            )
            at = end
    except IndexError:
        raise DecodeError("the batch ends within a record") from None
    if at != len(data):
        raise DecodeError("bytes after the last record")


def look(data: Buffer, at: int, end: int) -> tuple[int, BatchHeader | None]:
    """The kind of the batch at `at`, and its header.

    The kind is END, SPECIAL or BAD as above, or FULL for a plain batch.
    """
    if end - at < HEADER_SIZE:
        return END, None
    if data[at + MAGIC_AT] != MAGIC:
        return SPECIAL, None
    try:
        header = read_header(data, at)
    except DecodeError:
        return BAD, None
    if header.size > end - at:
        return END, None
    if not crc_is_valid(data, at, header) or header.last_offset_delta < 0 or header.record_count < 0:
        return BAD, None
    if header.attributes & (CODEC_MASK | TRANSACTIONAL | CONTROL):
        return SPECIAL, header
    return FULL, header


def index_batches_purely(
    slots: Slots,
    size: int,
    limit: int,
    first_offset: int,
    last_offset: int,
    data: Buffer,
    at: int,
    end: int,
    low: int,
    high: int,
    /,
) -> tuple[int, int, int, int, int, int]:
    """Add the keys of the batches in `data[at:end]` to a map of `size` keys, at most `limit`.

    Args:
        first_offset: records below it are skipped.
        last_offset: the map has every key up to this offset.
        low, high: the offsets that the next batch may have, without `high`.

    Returns the size and the last offset of the map, the number of records added, the position reached, the
    lowest offset of the next batch, and why it stopped.
    """
    if not 0 <= limit < len(slots) // 24:
        raise ValueError("the map has to keep an empty slot")
    indexed = 0
    while True:
        found, header = look(data, at, end)
        if found != FULL or header is None:
            return size, last_offset, indexed, at, low, found
        if header.base_offset < low or header.last_offset >= high:
            return size, last_offset, indexed, at, low, BAD
        records = bytes(memoryview(data)[at + HEADER_SIZE : at + header.size])
        size, last_offset, count, stop = index_records_purely(
            slots, size, limit, first_offset, last_offset, records, header.base_offset, header.record_count
        )
        indexed += count
        if stop != END:
            return size, last_offset, indexed, at, low, stop
        last_offset = max(last_offset, header.last_offset)
        low = header.next_offset
        at += header.size


def index_records_purely(
    slots: Slots,
    size: int,
    limit: int,
    first_offset: int,
    last_offset: int,
    records: Buffer,
    base_offset: int,
    count: int,
    /,
) -> tuple[int, int, int, int]:
    """Add the keys of one batch to a map.

    `last_offset` changes only if the map is full.
    """
    indexed = 0
    try:
        for record in iter_raw_records(bytes(records), count):
            offset = base_offset + record.offset_delta
            if record.key is None or offset < first_offset:
                continue
            digest = key_hash(record.key)
            position, known = find(slots, digest)
            if known < 0:
                if size >= limit:
                    return size, offset - 1, indexed, FULL
                size += 1
            put(slots, position, digest, offset)
            indexed += 1
    except DecodeError:
        return size, last_offset, indexed, BAD
    return size, last_offset, indexed, END


_COMPILED: Final = "kafkapy.storage.cleaning._compactor"

index_batches: IndexBatches = compiled_twin(_COMPILED, "index_batches", index_batches_purely)
index_records: IndexRecords = compiled_twin(_COMPILED, "index_records", index_records_purely)
