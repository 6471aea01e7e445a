"""A change of a group: a record of `__consumer_offsets` that is not encoded.

The state in memory follows the same records as the log. Keys and values have version 0. Source: Apache
Kafka's GroupCoordinatorRecordSerde.
"""

from __future__ import annotations

from typing import Any, Final, Generic, NamedTuple, TypeVar

from kafkapy.protocol.coordinator_records import decode_key, decode_value, encode_key, encode_value
from kafkapy.protocol.plain_batch import KeyValue

K = TypeVar("K")

VALUE_VERSION: Final = 0


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
        decoded = decode_key(self._types[kind][0], key)
        return decoded

    def decode_change(self, key: K, value: bytes) -> Change[K]:
        """The change of a decoded key and its value; raises DecodeError."""
        kind: Any = key
        decoded, _ = decode_value(self._types[kind.KEY][1], value)
        return Change(key, decoded)


def encode_change(change: Change[Any] | TargetChange | EncodedChange) -> KeyValue:
    """The key and value of the record."""
    if not isinstance(change, Change):
        return change.record
    key = encode_key(change.key.KEY, change.key)
    return key, None if change.value is None else encode_value(change.value, VALUE_VERSION)
