"""A change of a group: a record of `__consumer_offsets` that is not encoded.

The state in memory follows the same records as the log. Keys and values have version 0. Source: Apache
Kafka's GroupCoordinatorRecordSerde.
"""

from __future__ import annotations

import struct
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kafkapy.protocol.codec import decode_from, encode
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.plain_batch import KeyValue

K = TypeVar("K")

_INT16: Final = struct.Struct(">h")
VERSION: Final = _INT16.pack(0)


class Change(NamedTuple, Generic[K]):
    """A record with a key of type K.

    The value of a tombstone is None.
    """

    key: K
    value: Any


class TargetChange(NamedTuple):
    """The new target assignment of a member, and its record.

    It is encoded where the target was computed.
    """

    member_id: str
    target: Any
    record: KeyValue


class EncodedChange(NamedTuple):
    """A record that is encoded already."""

    record: KeyValue


class RecordTypes(Generic[K]):
    """The types of records of one type of group; K is the union of their keys."""

    def __init__(self, *types: tuple[Any, Any]) -> None:
        """`types` are the classes of keys and of their values."""
        self._types = {key.KEY: (key, value) for key, value in types}

    def __contains__(self, kind: int) -> bool:
        """Whether a key that begins with this number is one of these."""
        return kind in self._types

    def decode_key(self, kind: int, key: bytes) -> K:
        """Decode a key that begins with the number `kind`; raises DecodeError."""
        decoded: K
        decoded, _ = decode_from(self._types[kind][0], key, _INT16.size, 0)
        return decoded

    def decode_change(self, key: K, value: bytes) -> Change[K]:
        """The change of a decoded key and its value; raises DecodeError."""
        if value[: _INT16.size] != VERSION:
            raise DecodeError("its version is not 0")
        kind: Any = key
        decoded, _ = decode_from(self._types[kind.KEY][1], value, _INT16.size, 0)
        return Change(key, decoded)


def encode_change(change: Change[Any] | TargetChange | EncodedChange) -> KeyValue:
    """The key and value of the record."""
    if not isinstance(change, Change):
        return change.record
    key = _INT16.pack(change.key.KEY) + encode(change.key, 0)
    return key, None if change.value is None else VERSION + encode(change.value, 0)
