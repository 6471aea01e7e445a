"""The records of classic groups in `__consumer_offsets`.

    key                                        value
    int16 2, GroupMetadataKey                  int16 version, GroupMetadataValue; null: the group is gone

As Apache Kafka 4.x does, the broker writes version 3 of the value; it reads all versions.

Source: Apache Kafka's GroupCoordinatorRecordHelpers and GroupCoordinatorRecordSerde.
"""

from __future__ import annotations

from typing import Final

from kafkapy.protocol import coordinator_records
from kafkapy.protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue

GROUP_KEY_TYPE: Final = 2
GROUP_VALUE_VERSION: Final = 3


def encode_group_key(group_id: str) -> bytes:
    """`int16 2, GroupMetadataKey`."""
    return coordinator_records.encode_key(GROUP_KEY_TYPE, GroupMetadataKey(group=group_id))


def encode_group_value(value: GroupMetadataValue) -> bytes:
    """`int16 version, GroupMetadataValue`."""
    return coordinator_records.encode_value(value, GROUP_VALUE_VERSION)


def decode_group_value(value: bytes) -> GroupMetadataValue:
    """Raises DecodeError when it is broken or of an unknown version."""
    return coordinator_records.decode_value(GroupMetadataValue, value)[0]
