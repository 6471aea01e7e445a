"""The records of classic groups in `__consumer_offsets`.

    key                                        value
    int16 2, GroupMetadataKey                  int16 version, GroupMetadataValue; null: the group is gone

As Apache Kafka 4.x does, the broker writes version 3 of the value; it reads all versions.

Source: Apache Kafka's GroupCoordinatorRecordHelpers and GroupCoordinatorRecordSerde.
"""

from __future__ import annotations

import struct
from typing import Final

from kafkapy.protocol.codec import decode_from, encode
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue

GROUP_KEY_TYPE: Final = 2
GROUP_VALUE_VERSION: Final = 3

_INT16: Final = struct.Struct(">h")


def encode_group_key(group_id: str) -> bytes:
    """`int16 2, GroupMetadataKey`."""
    return _INT16.pack(GROUP_KEY_TYPE) + encode(GroupMetadataKey(group=group_id), 0)


def encode_group_value(value: GroupMetadataValue) -> bytes:
    """`int16 version, GroupMetadataValue`."""
    return _INT16.pack(GROUP_VALUE_VERSION) + encode(value, GROUP_VALUE_VERSION)


def decode_group_value(value: bytes) -> GroupMetadataValue:
    """Raises DecodeError when it is broken or of an unknown version."""
    if len(value) < _INT16.size:
        raise DecodeError("shorter than its version")
    version: int = _INT16.unpack_from(value)[0]
    first, last = GroupMetadataValue.VERSIONS
    if not first <= version <= last:
        raise DecodeError(f"version {version} is not one of {first}-{last}")
    record, _ = decode_from(GroupMetadataValue, value, _INT16.size, version)
    return record
