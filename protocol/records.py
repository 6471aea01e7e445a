"""Record batches, message format v2 (magic 2): headers, building and decoding.

A batch is this header and the records, which are compressed together if a codec is set. Integers are
big-endian.

    offset  field                   type
         0  base_offset             int64
         8  batch_length            int32   bytes after this field
        12  partition_leader_epoch  int32
        16  magic                   int8    2
        17  crc                     uint32  CRC-32C of everything after this field
        21  attributes              int16   0-2 codec, 3 timestamp type, 4 transactional, 5 control,
                                            6 delete horizon; the others are unused
        23  last_offset_delta       int32
        27  base_timestamp          int64   milliseconds since 1970; the delete horizon if bit 6 is set
        35  max_timestamp           int64
        43  producer_id             int64
        51  producer_epoch          int16
        53  base_sequence           int32
        57  record_count            int32
        61  records

A record is: length (varint), attributes (int8, unused), timestamp delta (varlong), offset delta (varint), key
and value (each a varint length, -1 for null, and its bytes), header count (varint), headers (key: varint
length and UTF-8; value: as above). Varints are zigzag. Deltas are relative to base timestamp and base offset.

The CRC covers neither base offset, length, leader epoch nor magic: the broker assigns offset and epoch by
patching the buffer that it received, and changes nothing else.

Messages of magic 0 and 1 (message sets of old clients, `legacy_records.py`) have the same first 17 bytes,
except that their CRC comes before the magic. `read_header` reads only their base offset, size and magic, so
that callers can refuse them.

Source: Kafka's `DefaultRecordBatch`, `DefaultRecord`; KIP-98.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import NamedTuple

from kafkapy.protocol.compression import CODEC_MASK, MAX_DECOMPRESSED, Buffer, codec_in, compress, decompress
from kafkapy.protocol.compression import Compression as Compression
from kafkapy.protocol.crc import crc32c
from kafkapy.protocol.errors import DecodeError

LOG_OVERHEAD = 12
"""The bytes of base offset and length, which the length does not count."""
HEADER_SIZE = 61

MAGIC = 2
NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
MAX_PRODUCER_EPOCH = 2**15 - 1
NO_SEQUENCE = -1
NO_PARTITION_LEADER_EPOCH = -1

HEADER = struct.Struct(">qiibIhiqqqhii")
assert HEADER.size == HEADER_SIZE
_LEGACY_HEADER = struct.Struct(">qiIb")
_LEGACY_MIN_SIZE = 26
"""The bytes of a message of magic 0 with a null key and a null value."""

LENGTH_AT = 8
MAGIC_AT = 16
CRC_AT = 17
CRC_FROM = ATTRIBUTES_AT = 21
"""The CRC covers a batch from its attributes to its end."""
CODEC_AT = 22
"""The byte of the attributes that has the codec."""
_MAX_TIMESTAMP_AT = 35
_STAMP = struct.Struct(">qii")  # base offset, length and leader epoch
_UINT32 = struct.Struct(">I")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")

TIMESTAMP_TYPE = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

MAX_SEQUENCE = 2**31 - 1
"""The sequence number after this one is 0."""


class TimestampType(IntEnum):
    """The source of a batch's timestamps: the producer's clock or the broker's."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The header of a batch.

    Of other magics than 2 only base_offset, batch_length and magic are read.
    """

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """The bytes of the complete batch."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def compression(self) -> Compression:
        """The codec.

        Raises:
            DecodeError: Kafka has no such codec.
        """
        return codec_in(self.attributes)

    @property
    def timestamp_type(self) -> TimestampType:
        return (
            TimestampType.LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE else TimestampType.CREATE_TIME
        )

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON)


@dataclass(slots=True)
class Record:
    """A record as clients see it; `offset` is -1 until the record gets one."""

    offset: int = -1
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


def increment_sequence(sequence: int, increment: int) -> int:
    """Add to a sequence number, which wraps from 2**31 - 1 to 0."""
    return (sequence + increment) & MAX_SEQUENCE


# --- headers ------------------------------------------------------------------------------------------------

header_of = partial(tuple.__new__, BatchHeader)
"""As BatchHeader._make, without a call of Python code for each batch."""


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header of the batch at `position`; the buffer may end after it.

    Raises:
        DecodeError: the buffer ends within the header, or the declared size is smaller than a header.
    """
    left = len(buffer) - position
    if left >= HEADER_SIZE and buffer[position + MAGIC_AT] == MAGIC:
        header = header_of(HEADER.unpack_from(buffer, position))
        if header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
            raise DecodeError(f"a batch of {header.size} bytes is smaller than its header")
        return header
    if left < _LEGACY_HEADER.size:
        raise DecodeError(f"a batch header needs {HEADER_SIZE} bytes, {max(left, 0)} are left")
    base_offset, length, _, magic = _LEGACY_HEADER.unpack_from(buffer, position)
    if magic == MAGIC:
        raise DecodeError(f"a batch header needs {HEADER_SIZE} bytes, {left} are left")
    if length < _LEGACY_MIN_SIZE - LOG_OVERHEAD:
        raise DecodeError(f"a message of {length + LOG_OVERHEAD} bytes is smaller than its header")
    return BatchHeader(
        base_offset, length, NO_PARTITION_LEADER_EPOCH, magic, 0, 0, 0, NO_TIMESTAMP, NO_TIMESTAMP,
        NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, 0,
    )  # fmt: skip


def iter_headers(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each batch, up to the end or to a batch that is torn there.

    Raises:
        DecodeError: as `read_header`, for an impossible size.
    """
    end = len(buffer)
    while end - position >= LOG_OVERHEAD:
        (length,) = _INT32.unpack_from(buffer, position + LENGTH_AT)
        if length + LOG_OVERHEAD > end - position:
            return
        header = read_header(buffer, position)
        yield position, header
        position += header.size


def crc_is_valid(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the batch is complete and its CRC-32C is the one in its header."""
    end = position + header.size
    return end <= len(buffer) and crc32c(memoryview(buffer)[position + CRC_FROM : end]) == header.crc


def stamp_batch(buffer: bytearray | memoryview, base_offset: int, leader_epoch: int) -> BatchHeader:
    """Set the base offset and leader epoch of the batch that fills `buffer`.

    Returns its header as it is then. The CRC covers neither.
    """
    _STAMP.pack_into(buffer, 0, base_offset, len(buffer) - LOG_OVERHEAD, leader_epoch)
    return header_of(HEADER.unpack_from(buffer))


def set_max_timestamp(
    buffer: bytearray | memoryview, position: int, timestamp_type: TimestampType, max_timestamp: int
) -> None:
    """Set the batch's timestamp type and max timestamp in place, and its CRC if they change.

    With LOG_APPEND_TIME the max timestamp is the timestamp of every record.
    """
    header = read_header(buffer, position)
    attributes = header.attributes & ~TIMESTAMP_TYPE | timestamp_type << 3
    if attributes == header.attributes and max_timestamp == header.max_timestamp:
        return
    _INT16.pack_into(buffer, position + CRC_FROM, attributes)
    _INT64.pack_into(buffer, position + _MAX_TIMESTAMP_AT, max_timestamp)
    write_crc(memoryview(buffer)[position : position + header.size])


def write_crc(batch: memoryview) -> int:
    """Set the CRC of the batch that fills `batch`, and return it."""
    crc: int = crc32c(batch[CRC_FROM:])
    _UINT32.pack_into(batch, CRC_AT, crc)
    return crc


# --- building -----------------------------------------------------------------------------------------------


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    delete_horizon: int | None = None,
) -> bytearray:
    """Build one batch from at least one record.

    A record with offset -1 gets the offset after that of the record before it. Offsets may have gaps but must
    rise.

    Args:
        level: the codec's level, see `compress`.
        timestamp_type: with LOG_APPEND_TIME the greatest timestamp becomes that of all records.
        delete_horizon: when compaction may remove the batch's tombstones and markers, in milliseconds.
    """
    payload = bytearray()
    delta = -1
    count = 0
    base_timestamp = delete_horizon
    max_timestamp = NO_TIMESTAMP
    for record in records:
        if base_timestamp is None:
            base_timestamp = record.timestamp
        previous = delta
        delta = previous + 1 if record.offset == -1 else record.offset - base_offset
        if not previous < delta < 2**31:
            raise ValueError(f"record {count} has offset {record.offset}, not after the one before it")
        max_timestamp = max(max_timestamp, record.timestamp)
        _append_record(payload, record, record.timestamp - base_timestamp, delta)
        count += 1
    if base_timestamp is None or not count:
        raise ValueError("a batch needs a record")
    attributes = (
        compression
        | timestamp_type << 3
        | (TRANSACTIONAL if transactional else 0)
        | (CONTROL if control else 0)
        | (DELETE_HORIZON if delete_horizon is not None else 0)
    )
    body = compress(compression, payload, level) if compression else payload
    batch = bytearray(HEADER_SIZE)
    HEADER.pack_into(
        batch, 0, base_offset, HEADER_SIZE - LOG_OVERHEAD + len(body), leader_epoch, MAGIC, 0, attributes,
        delta, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count,
    )  # fmt: skip
    batch += body
    write_crc(memoryview(batch))
    return batch


def recompress_batch(
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    compression: Compression,
    *,
    level: int | None = None,
    limit: int = MAX_DECOMPRESSED,
) -> bytearray:
    """Return the same batch with another codec; the bytes of the records do not change.

    Raises:
        DecodeError: as `decompress`.
    """
    payload = memoryview(buffer)[position + HEADER_SIZE : position + header.size]
    body = compress(compression, decompress(header.compression, payload, limit=limit), level)
    batch = bytearray(HEADER_SIZE)
    length = HEADER_SIZE - LOG_OVERHEAD + len(body)
    attributes = header.attributes & ~CODEC_MASK | compression
    HEADER.pack_into(batch, 0, *header._replace(batch_length=length, attributes=attributes))
    batch += body
    write_crc(memoryview(batch))
    return batch


def _append_record(payload: bytearray, record: Record, timestamp_delta: int, offset_delta: int) -> None:
    body = bytearray(1)
    append_varint(body, timestamp_delta)
    append_varint(body, offset_delta)
    _append_bytes(body, record.key)
    _append_bytes(body, record.value)
    append_varint(body, len(record.headers))
    for name, value in record.headers:
        _append_bytes(body, name.encode())
        _append_bytes(body, value)
    append_varint(payload, len(body))
    payload += body


def _append_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(1)
    else:
        append_varint(out, len(value))
        out += value


def append_varint(out: bytearray, value: int) -> None:
    """Append a zigzag varint."""
    value = value << 1 if value >= 0 else ~value << 1 | 1
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


# --- decoding -----------------------------------------------------------------------------------------------


def decode_records(
    buffer: Buffer, position: int = 0, header: BatchHeader | None = None, *, limit: int = MAX_DECOMPRESSED
) -> list[Record]:
    """Return the records of the batch at `position`, control records too.

    The CRC is not checked.

    Args:
        limit: how many bytes the records may decompress to.

    Raises:
        DecodeError: a consumer could not read the batch.
    """
    return list(iter_records(buffer, position, header, limit=limit))


def iter_records(
    buffer: Buffer, position: int = 0, header: BatchHeader | None = None, *, limit: int = MAX_DECOMPRESSED
) -> Iterator[Record]:
    """Yield the records one by one: those of a large batch take many times its bytes."""
    if header is None:
        header = read_header(buffer, position)
    if header.magic != MAGIC:
        raise DecodeError(f"message format {header.magic} is not supported")
    if position + header.size > len(buffer):
        raise DecodeError(f"a batch of {header.size} bytes where {len(buffer) - position} are left")
    payload = memoryview(buffer)[position + HEADER_SIZE : position + header.size]
    codec = header.compression
    data = decompress(codec, payload, limit=limit) if codec else payload.tobytes()
    append_time = header.max_timestamp if header.timestamp_type == TimestampType.LOG_APPEND_TIME else None
    if not 0 <= header.record_count <= len(data) // 7:  # the smallest record has seven bytes
        raise DecodeError(f"{header.record_count} records in {len(data)} bytes")
    at = 0
    for index in range(header.record_count):
        try:
            record, at = _decode_record(data, at, header, append_time, index)
        except IndexError:
            raise DecodeError(f"the batch ends within record {index}") from None
        except UnicodeDecodeError:
            raise DecodeError(f"a header key of record {index} is not UTF-8") from None
        yield record
    if at != len(data):
        raise DecodeError(f"{len(data) - at} bytes after the last record")


def _decode_record(
    data: bytes, at: int, header: BatchHeader, append_time: int | None, index: int
) -> tuple[Record, int]:
    length, at = read_varint(data, at, 32)
    end = at + length
    if not at <= end <= len(data):
        raise DecodeError(f"record {index} declares {length} bytes, {len(data) - at} are left")
    timestamp_delta, at = read_varint(data, at + 1, 64)
    offset_delta, at = read_varint(data, at, 32)
    key, at = _read_bytes(data, at, end)
    value, at = _read_bytes(data, at, end)
    header_count, at = read_varint(data, at, 32)
    if not 0 <= header_count <= (end - at) // 2:
        raise DecodeError(f"record {index} declares {header_count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(header_count):
        name, at = _read_bytes(data, at, end)
        if name is None:
            raise DecodeError(f"record {index} has a header without a key")
        content, at = _read_bytes(data, at, end)
        headers.append((name.decode(), content))
    if at != end:
        raise DecodeError(f"record {index} declares {length} bytes and does not end there")
    timestamp = header.base_timestamp + timestamp_delta if append_time is None else append_time
    return Record(header.base_offset + offset_delta, timestamp, key, value, headers), end


def _read_bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = read_varint(data, at, 32)
    if length == -1:
        return None, at
    if not 0 <= length <= end - at:
        raise DecodeError(f"a field declares {length} bytes, {end - at} are left in its record")
    return data[at : at + length], at + length


def read_varint(data: bytes, at: int, bits: int) -> tuple[int, int]:
    """Return a zigzag varint of at most 32 or 64 bits and the position after it.

    Raises:
        DecodeError: the varint has more bits.
        IndexError: the data ends within the varint.
    """
    byte = data[at]
    if byte < 0x80:
        return byte >> 1 ^ -(byte & 1), at + 1
    value = byte & 0x7F
    byte = data[at + 1]
    if byte < 0x80:
        value |= byte << 7
        return value >> 1 ^ -(value & 1), at + 2
    value |= (byte & 0x7F) << 7
    at += 2
    for shift in range(14, bits, 7):
        byte = data[at]
        at += 1
        if shift + 7 > bits and byte >> (bits - shift):
            break
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), at
    raise DecodeError("a varint that is too long")
