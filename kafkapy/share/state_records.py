"""The records of `__share_group_state`.

    key                              value, version 0
    0 ShareSnapshot (group, topic    all state of a share partition; null: it is gone
      id, partition)
    1 ShareUpdate (the same)         what has changed since the last snapshot

The topic is not compacted: an update does not replace the one before it. Records before the oldest snapshot
that counts are deleted (share_coordinator.py). Source: Apache Kafka's ShareCoordinatorRecordHelpers,
ShareCoordinatorRecordSerde.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from kafkapy.protocol.codec import decode_from, encode
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.messages.share_state_records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from kafkapy.protocol.types import Uuid, uuid_to_text

SNAPSHOT: Final = 0
UPDATE: Final = 1
_TYPES: Final[dict[int, tuple[Any, Any]]] = {
    SNAPSHOT: (ShareSnapshotKey, ShareSnapshotValue),
    UPDATE: (ShareUpdateKey, ShareUpdateValue),
}
_INT16: Final = struct.Struct(">h")
_VERSION: Final = _INT16.pack(0)


class ShareKey(NamedTuple):
    """The key of a share partition."""

    group_id: str
    topic_id: Uuid
    partition: int

    @property
    def coordinator_key(self) -> str:
        """The text whose hash decides which partition of the topic has the state."""
        return f"{self.group_id}:{uuid_to_text(self.topic_id)}:{self.partition}"


def encode_record(
    key: ShareKey, value: ShareSnapshotValue | ShareUpdateValue | None
) -> tuple[bytes, bytes | None]:
    """The key and value of a record; None for the value of a tombstone."""
    kind = UPDATE if isinstance(value, ShareUpdateValue) else SNAPSHOT
    key_class = _TYPES[kind][0]
    encoded = encode(key_class(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition), 0)
    return _INT16.pack(kind) + encoded, None if value is None else _VERSION + encode(value, 0)


def decode_record(
    key: bytes, value: bytes | None
) -> tuple[ShareKey, ShareSnapshotValue | ShareUpdateValue | None] | None:
    """The key and value of a record; None for a type that is ignored.

    Raises:
        DecodeError: it is broken, or of an unknown version.
    """
    if len(key) < _INT16.size:
        raise DecodeError("shorter than its type")
    types = _TYPES.get(_INT16.unpack_from(key)[0])
    if types is None:
        return None
    found, _ = decode_from(types[0], key, _INT16.size, 0)
    share_key = ShareKey(found.group_id, found.topic_id, found.partition)
    if value is None:
        return share_key, None
    if value[: _INT16.size] != _VERSION:
        raise DecodeError("its version is not 0")
    decoded, _ = decode_from(types[1], value, _INT16.size, 0)
    return share_key, decoded
