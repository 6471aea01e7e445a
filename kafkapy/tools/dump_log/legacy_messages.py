"""Messages of magic 0 and 1 (protocol/legacy_records.py), as kafka-dump-log shows them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from kafkapy.protocol.legacy_compression import decompress_legacy
from kafkapy.protocol.legacy_records import (
    CRC_AT,
    CRC_FROM,
    MAGIC_0,
    Message,
    append_message,
    iter_messages,
    unwrap,
)
from kafkapy.protocol.records import NO_TIMESTAMP, Compression, Record, TimestampType
from kafkapy.tools.dump_log.fact import Values

_TIMESTAMP_AT = 18
TIMESTAMP_TYPES = {TimestampType.CREATE_TIME: "CreateTime", TimestampType.LOG_APPEND_TIME: "LogAppendTime"}


def message_values(offset: int, message: memoryview, position: int) -> Values:
    """Return the values of a message as it is in the file; a wrapper is not opened."""
    magic, attributes = message[CRC_FROM], message[CRC_FROM + 1]
    timestamp = NO_TIMESTAMP
    if magic != MAGIC_0:
        timestamp = int.from_bytes(message[_TIMESTAMP_AT : _TIMESTAMP_AT + 8], "big", signed=True)
    codec = attributes & 7
    crc = int.from_bytes(message[CRC_AT:CRC_FROM], "big")
    return {
        "offset": offset,
        "position": position,
        "timestampType": _type_name(magic, TimestampType(attributes >> 3 & 1)),
        "timestamp": timestamp,
        "size": len(message),
        "magic": magic,
        "compresscodec": Compression(codec).name.lower() if codec < len(Compression) else f"unknown({codec})",
        "crc": crc,
        "isvalid": zlib.crc32(message[CRC_FROM:]) == crc,
    }


def messages_in(data: memoryview, *, limit: int) -> Iterator[tuple[Values, Record]]:
    """Yield the messages that consumers see: wrappers are opened, and offsets are absolute.

    Raises:
        DecodeError: they cannot be read.
    """
    for message in iter_messages(data):
        if not message.compression:
            yield _record_values(message, message, message.timestamp_type), _record(message)
            continue
        stored = iter_messages(
            decompress_legacy(message.compression, message.magic, message.value or b"", limit=limit)
        )
        for each, inner in zip(unwrap(message, limit=limit), stored, strict=True):
            yield _record_values(each, inner, message.timestamp_type), _record(each)


def _record_values(message: Message, stored: Message, timestamp_type: TimestampType) -> Values:
    rebuilt = bytearray()
    append_message(rebuilt, stored.magic, 0, stored.attributes, stored.timestamp, stored.key, stored.value)
    return {
        "offset": message.offset,
        "timestampType": _type_name(message.magic, timestamp_type),
        "timestamp": message.timestamp,
        "keySize": -1 if message.key is None else len(message.key),
        "valueSize": -1 if message.value is None else len(message.value),
        "isValid": True,  # invalid messages are not read
        "crc": int.from_bytes(rebuilt[CRC_AT:CRC_FROM], "big"),
    }


def _record(message: Message) -> Record:
    return Record(message.offset, message.timestamp, message.key, message.value)


def _type_name(magic: int, timestamp_type: TimestampType) -> str:
    return "NoTimestampType" if magic == MAGIC_0 else TIMESTAMP_TYPES[timestamp_type]
