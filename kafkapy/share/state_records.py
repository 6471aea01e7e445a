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

from typing import Any, Final, NamedTuple

from kafkapy.protocol.coordinator_records import decode_key, decode_value, encode_key, encode_value, type_of
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
_VALUE_VERSION: Final = 0


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
    message = key_class(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    return encode_key(kind, message), None if value is None else encode_value(value, _VALUE_VERSION)


def decode_record(
    key: bytes, value: bytes | None
) -> tuple[ShareKey, ShareSnapshotValue | ShareUpdateValue | None] | None:
    """The key and value of a record; None for a type that is ignored.

    Raises:
        DecodeError: it is broken, or of an unknown version.
    """
    types = _TYPES.get(type_of(key))
    if types is None:
        return None
    found = decode_key(types[0], key)
    share_key = ShareKey(found.group_id, found.topic_id, found.partition)
    return share_key, None if value is None else decode_value(types[1], value)[0]
