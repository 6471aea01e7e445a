"""The format of the records of `__consumer_offsets`.

    key                                        value
    int16 1, OffsetCommitKey                   int16 version, OffsetCommitValue; null: the offset is gone
    int16 2, GroupMetadataKey                  int16 version, GroupMetadataValue; null: the group is gone

As Apache Kafka 4.x does, the broker writes GroupMetadataValue v3; it reads all versions. OffsetCommitValue is
in committed_offset.py. Key type 0 is how Kafka 0.8 wrote type 1. Those of consumer groups are in
`kafkapy.groups.consumer.records`, those of share groups in `kafkapy.groups.share.records`, and those of
streams groups in `kafkapy.groups.streams.records`. Other key types are ignored. Offset records are the most
frequent internal records, so their keys are encoded by hand here; a test compares them with the codec.

Source: Apache Kafka's GroupCoordinatorRecordHelpers and GroupCoordinatorRecordSerde.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from kafkapy.groups.consumer.records import CONSUMER_RECORDS, ConsumerGroupKey
from kafkapy.groups.offsets.committed_offset import EncodedOffset
from kafkapy.groups.share.records import SHARE_RECORDS, ShareGroupKey
from kafkapy.groups.streams.records import STREAMS_RECORDS, StreamsGroupKey
from kafkapy.protocol.codec import decode_from, encode
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey
from kafkapy.protocol.plain_batch import KeyValue
from kafkapy.protocol.types import TopicPartition

OFFSET_KEY_TYPES: Final = (0, 1)
GROUP_KEY_TYPE: Final = 2
GROUP_VALUE_VERSION: Final = 3
MAX_PARTITION_KEYS: Final = 10_000
"""The most partitions whose part of a key is remembered."""

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_TYPE_AND_LENGTH: Final = struct.Struct(">hh")


class OffsetKey(NamedTuple):
    """Key of a committed offset."""

    group_id: str
    partition: TopicPartition


class GroupKey(NamedTuple):
    """Key of a group's metadata."""

    group_id: str


def offset_records(group_id: str, offsets: Mapping[TopicPartition, EncodedOffset | None]) -> list[KeyValue]:
    """The records of a group's offsets, in their order.

    A key is `int16 1, OffsetCommitKey`. The value is that of the offset, None for a tombstone.
    """
    group = group_id.encode()
    start = _TYPE_AND_LENGTH.pack(1, len(group)) + group
    ends = _PARTITION_KEYS
    return [(start + ends[partition], value) for partition, value in offsets.items()]


class _PartitionKeys(dict[TopicPartition, bytes]):
    """The end of an OffsetCommitKey, the same for all groups, by partition.

    When there are very many, all are forgotten.
    """

    def __missing__(self, partition: TopicPartition) -> bytes:
        if len(self) >= MAX_PARTITION_KEYS:
            self.clear()
        name = partition.topic.encode()
        end = b"".join((_INT16.pack(len(name)), name, _INT32.pack(partition.partition)))
        self[partition] = end
        return end


_PARTITION_KEYS: Final = _PartitionKeys()


def encode_group_key(group_id: str) -> bytes:
    """`int16 2, GroupMetadataKey`."""
    return _INT16.pack(GROUP_KEY_TYPE) + encode(GroupMetadataKey(group=group_id), 0)


def encode_group_value(value: GroupMetadataValue) -> bytes:
    """`int16 version, GroupMetadataValue`."""
    return _INT16.pack(GROUP_VALUE_VERSION) + encode(value, GROUP_VALUE_VERSION)


def decode_key(
    key: bytes,
) -> OffsetKey | GroupKey | ConsumerGroupKey | ShareGroupKey | StreamsGroupKey | None:
    """Decode the key of a record; None for a type that is ignored.

    Raises:
        DecodeError: it is broken.
    """
    kind = _read_int16(key)
    if kind in OFFSET_KEY_TYPES:
        offset_key, _ = decode_from(OffsetCommitKey, key, 2, 0)
        return OffsetKey(offset_key.group, TopicPartition(offset_key.topic, offset_key.partition))
    if kind == GROUP_KEY_TYPE:
        group_key, _ = decode_from(GroupMetadataKey, key, 2, 0)
        return GroupKey(group_key.group)
    if kind in CONSUMER_RECORDS:
        return CONSUMER_RECORDS.decode_key(kind, key)
    if kind in SHARE_RECORDS:
        return SHARE_RECORDS.decode_key(kind, key)
    if kind in STREAMS_RECORDS:
        return STREAMS_RECORDS.decode_key(kind, key)
    return None


def decode_group_value(value: bytes) -> GroupMetadataValue:
    """Raises DecodeError when it is broken or of an unknown version."""
    version = _read_int16(value)
    first, last = GroupMetadataValue.VERSIONS
    if not first <= version <= last:
        raise DecodeError(f"version {version} is not one of {first}-{last}")
    record, _ = decode_from(GroupMetadataValue, value, _INT16.size, version)
    return record


def _read_int16(data: bytes) -> int:
    if len(data) < 2:
        raise DecodeError("shorter than its type")
    number: int = _INT16.unpack_from(data)[0]
    return number
