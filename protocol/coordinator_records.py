"""The format of the records with which coordinators keep their state in internal topics.

    key      int16 type of the record, then a message in version 0
    value    int16 version, then a message in that version; a null value deletes the key

Source: Apache Kafka's CoordinatorRecordSerde.
"""

from __future__ import annotations

import struct
from typing import Final, TypeVar

from kafkapy.protocol.codec import decode_from, encode
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.message import TopMessage

M = TypeVar("M", bound=TopMessage)

_INT16: Final = struct.Struct(">h")
_KEY_VERSION: Final = 0


def encode_key(record_type: int, key: TopMessage) -> bytes:
    """The key of a record."""
    return _INT16.pack(record_type) + encode(key, _KEY_VERSION)


def encode_value(value: TopMessage, version: int) -> bytes:
    """The value of a record."""
    return _INT16.pack(version) + encode(value, version)


def type_of(key: bytes) -> int:
    """The type of a record; raises DecodeError if the key has none."""
    if len(key) < _INT16.size:
        raise DecodeError("the key is shorter than its type")
    record_type: int = _INT16.unpack_from(key)[0]
    return record_type


def decode_key(key_class: type[M], key: bytes) -> M:
    """The key of a record whose type is known; raises DecodeError."""
    return decode_from(key_class, key, _INT16.size, _KEY_VERSION)[0]


def decode_value(value_class: type[M], value: bytes) -> tuple[M, int]:
    """The value of a record and its version.

    Raises:
        DecodeError: it is broken, or of an unknown version.
    """
    if len(value) < _INT16.size:
        raise DecodeError("the value is shorter than its version")
    version: int = _INT16.unpack_from(value)[0]
    return decode_from(value_class, value, _INT16.size, version)[0], version
