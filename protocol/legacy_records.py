"""Message sets: records of magic 0 and 1, as clients before Kafka 0.11 write and read them.

A set is a sequence of messages without a common header. Integers are big-endian.

    offset  field         type
         0  offset        int64
         8  size          int32   bytes after this field
        12  crc           uint32  CRC-32 of everything after this field
        16  magic         int8    0 or 1
        17  attributes    int8    0-2 codec, 3 timestamp type (magic 1)
        18  timestamp     int64   magic 1 only: milliseconds since 1970, -1 for none
            key           int32 length, -1 for null, and its bytes
            value         likewise

A message with a codec is a wrapper: its key is null, and its value is a compressed message set whose messages
have no codec. The wrapper has the offset of the last of them. Their own offsets are absolute in magic 0 and
count from 0 in magic 1. In magic 1 the wrapper also has the largest timestamp of its messages, or the
timestamp of all of them if the timestamp type is LogAppendTime. There are no headers, producer ids or
transactions.

A set may end within a message, since a broker truncates it at the requested number of bytes. The client reads
the complete messages. If there are none, the first message is larger than the client's request allows.

Writers differ: offsets in producers' messages have no meaning, and librdkafka sent wrappers with offset 0.

Source: Kafka's `LegacyRecord`, `AbstractLegacyRecordBatch`, `ByteBufferLogInputStream`; KIP-31, KIP-32.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from zlib import crc32

from kafkapy.protocol.compression import CODEC_MASK, MAX_DECOMPRESSED, Buffer, Compression, codec_in
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.legacy_compression import compress_legacy, decompress_legacy
from kafkapy.protocol.records import LOG_OVERHEAD, MAGIC, NO_TIMESTAMP, TIMESTAMP_TYPE, Record, TimestampType

MAGIC_0 = 0
MAGIC_1 = 1

_PREFIX = struct.Struct(">qiIbb")
_UP_TO_MAGIC = 17
_MIN_SIZE = 14
"""The size field of a message of magic 0 with a null key and a null value."""
_MIN_SIZE_1 = _MIN_SIZE + 8
_FIELDS_AT = (18, 26)
"""Where the key begins, by magic."""
CRC_AT = 12
CRC_FROM = 16

_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_HEAD = struct.Struct(">qiI")
"""Offset, size, CRC."""
_BODY = (struct.Struct(">bbi"), struct.Struct(">bbqi"))
"""Magic, attributes, timestamp (magic 1 only) and key length, by magic."""


class CorruptMessageError(DecodeError):
    """The bytes are not a message, or changed in transit; the client should send them again."""


class Message(NamedTuple):
    """A message as it is in its set."""

    offset: int
    size: int
    """The bytes of the complete message, with the fields offset and size."""
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def compression(self) -> Compression:
        """The codec.

        Raises:
            DecodeError: Kafka has no such codec.
        """
        return codec_in(self.attributes)

    @property
    def timestamp_type(self) -> TimestampType:
        if self.magic == MAGIC_1 and self.attributes & TIMESTAMP_TYPE:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME


# --- reading ------------------------------------------------------------------------------------------------


def iter_messages(data: Buffer) -> Iterator[Message]:
    """Yield the messages of a set, wrappers unopened; a torn message at the end is left out.

    Raises:
        CorruptMessageError: a size or a magic is impossible, or a CRC is wrong.
        DecodeError: key and value do not fill their message, or a record batch follows.
    """
    data = bytes(data)
    end = len(data)
    position = 0
    while end - position >= LOG_OVERHEAD:
        (size,) = _INT32.unpack_from(data, position + 8)
        if size < _MIN_SIZE:
            raise CorruptMessageError(f"a message of {size} bytes is smaller than its fields")
        if end - position < _UP_TO_MAGIC:
            return
        magic = data[position + 16]
        if magic > MAGIC_1:
            wrong = DecodeError if magic == MAGIC else CorruptMessageError
            raise wrong(f"magic {magic} in a set of messages of magic 0 and 1")
        following = position + LOG_OVERHEAD + size
        if following > end:
            return
        yield _read_message(data, position, size, magic)
        position = following


def _read_message(data: bytes, position: int, size: int, magic: int) -> Message:
    end = position + LOG_OVERHEAD + size
    offset, _, crc, _, attributes = _PREFIX.unpack_from(data, position)
    if crc32(memoryview(data)[position + CRC_FROM : end]) != crc:
        raise CorruptMessageError(f"the message is corrupt (stored CRC {crc})")
    timestamp = NO_TIMESTAMP
    if magic == MAGIC_1:
        if size < _MIN_SIZE_1:
            raise DecodeError(f"a message of {size} bytes is smaller than its fields")
        (timestamp,) = _INT64.unpack_from(data, position + 18)
    key, at = _read_field(data, position + _FIELDS_AT[magic], end)
    value, at = _read_field(data, at, end)
    if at != end:
        raise DecodeError(f"{end - at} bytes after the value of a message")
    return Message(offset, size + LOG_OVERHEAD, magic, attributes, timestamp, key, value)


def _read_field(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    at += 4
    if at > end:
        raise DecodeError("a message ends before its value")
    (length,) = _INT32.unpack_from(data, at - 4)
    if length < 0:
        return None, at
    if length > end - at:
        raise DecodeError(f"a field of {length} bytes where {end - at} are left in the message")
    return data[at : at + length], at + length


def unwrap(wrapper: Message, *, limit: int = MAX_DECOMPRESSED) -> Iterator[Message]:
    """Yield the messages in a wrapper, with offsets and timestamps as consumers see them.

    Args:
        limit: how many bytes they may decompress to.

    Raises:
        CorruptMessageError: as `iter_messages`.
        DecodeError: a consumer could not read them.
    """
    magic = wrapper.magic
    if wrapper.value is None:
        raise DecodeError("a message with a codec has no value")
    data = decompress_legacy(wrapper.compression, magic, wrapper.value, limit=limit)
    last = _last_offset(data)
    base = 0
    if magic == MAGIC_1 and wrapper.offset:
        base = wrapper.offset - last
        if base < 0:
            raise DecodeError(f"a message with offset {wrapper.offset} holds one with offset {last}")
    append_time = wrapper.timestamp if wrapper.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    for message in iter_messages(data):
        if message.magic != magic:
            raise DecodeError(f"a message of magic {message.magic} within one of magic {magic}")
        if message.attributes & CODEC_MASK:
            raise DecodeError("a message with a codec within another one")
        timestamp = message.timestamp if append_time is None else append_time
        yield message._replace(offset=base + message.offset, timestamp=timestamp)


def _last_offset(data: bytes) -> int:
    """Return the offset of the last complete message of a set."""
    end = len(data)
    position, offset = 0, None
    while end - position >= LOG_OVERHEAD:
        found, size = _HEAD.unpack_from(data, position)[:2]
        following = position + LOG_OVERHEAD + size
        if size < _MIN_SIZE or following > end:
            break
        position, offset = following, found
    if offset is None:
        raise DecodeError("a message with a codec holds no message")
    return int(offset)


def decode_message_set(data: Buffer, *, limit: int = MAX_DECOMPRESSED) -> list[Record]:
    """Return all records of a set, as a client reads it.

    Raises:
        DecodeError: as `iter_messages` and `unwrap`.
    """
    return [
        Record(each.offset, each.timestamp, each.key, each.value)
        for message in iter_messages(data)
        for each in (unwrap(message, limit=limit) if message.compression else (message,))
    ]


def offset_of(data: Buffer) -> int:
    """Return the offset of the first message of a set, or -1 if it has none.

    A wrapper has the offset of its last message.
    """
    return int(_INT64.unpack_from(data)[0]) if data else -1


# --- building -----------------------------------------------------------------------------------------------


def build_message_set(
    records: Iterable[Record],
    magic: int,
    *,
    compression: Compression = Compression.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytearray:
    """Build a set from records that have offsets; with a codec it is one wrapper.

    Headers are left out. Without records the set is empty.
    """
    attributes = timestamp_type << 3 if magic == MAGIC_1 else 0
    relative = bool(compression) and magic == MAGIC_1
    messages = bytearray()
    base = offset = -1
    max_timestamp = NO_TIMESTAMP
    for record in records:
        offset, timestamp = record.offset, record.timestamp
        if base < 0:
            base = offset if relative else 0
        max_timestamp = max(max_timestamp, timestamp)
        append_message(messages, magic, offset - base, attributes, timestamp, record.key, record.value)
    if not compression or not messages:
        return messages
    wrapper = bytearray()
    value = compress_legacy(compression, magic, messages)
    append_message(wrapper, magic, offset, attributes | compression, max_timestamp, None, value)
    return wrapper


def append_message(
    out: bytearray,
    magic: int,
    offset: int,
    attributes: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
) -> None:
    """Append one message to `out`."""
    key_length = -1 if key is None else len(key)
    if magic == MAGIC_0:
        head = _BODY[0].pack(MAGIC_0, attributes, key_length)
    else:
        head = _BODY[1].pack(MAGIC_1, attributes, timestamp, key_length)
    body = b"".join((head, key or b"", _INT32.pack(-1 if value is None else len(value)), value or b""))
    out += _HEAD.pack(offset, len(body) + 4, crc32(body))
    out += body
