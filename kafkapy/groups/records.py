"""The format of the records of `__consumer_offsets`.

    key                                        value
    int16 1, OffsetCommitKey                   int16 version, OffsetCommitValue; null: the offset is gone
    int16 2, GroupMetadataKey                  int16 version, GroupMetadataValue; null: the group is gone

As Apache Kafka 4.x does, the broker writes OffsetCommitValue v4 (v1 if the client set an expiry) and
GroupMetadataValue v3; it reads all versions. Key type 0 is how Kafka 0.8 wrote type 1. Those of consumer
groups are in `kafkapy.groups.consumer.records`, those of share groups in `kafkapy.groups.share.records`, and
those of streams groups in `kafkapy.groups.streams.records`. Other key types are ignored. Offset records are
the most frequent internal records, so their key and value are encoded and decoded by hand here; a test
compares them with the codec.

Source: Apache Kafka's GroupCoordinatorRecordHelpers and GroupCoordinatorRecordSerde.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kafkapy.groups.consumer.records import CONSUMER_KEY_TYPES, ConsumerGroupKey, decode_consumer_key
from kafkapy.groups.offsets import NO_EXPIRY, CommittedOffset
from kafkapy.groups.share.records import SHARE_KEY_TYPES, ShareGroupKey, decode_share_key
from kafkapy.groups.streams.records import STREAMS_KEY_TYPES, StreamsGroupKey, decode_streams_key
from kafkapy.protocol.codec import decode_from, encode
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkapy.protocol.types import ZERO_UUID, TopicPartition

OFFSET_KEY_TYPES: Final = (0, 1)
GROUP_KEY_TYPE: Final = 2
OFFSET_VALUE_VERSION: Final = 4
OFFSET_VALUE_VERSION_WITH_EXPIRY: Final = 1
GROUP_VALUE_VERSION: Final = 3

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_TYPE_AND_LENGTH: Final = struct.Struct(">hh")
_V4_HEAD: Final = struct.Struct(">hqi")  # version, offset, leader epoch
_TAG_TOPIC_ID: Final = b"\x01\x00\x10"  # one tagged field, tag 0, 16 bytes
_NO_TAGS: Final = b"\x00"
_ONE_BYTE: Final = [bytes([number]) for number in range(0x80)]


class OffsetKey(NamedTuple):
    """Key of a committed offset."""

    group_id: str
    partition: TopicPartition


class GroupKey(NamedTuple):
    """Key of a group's metadata."""

    group_id: str


def encode_offset_key(group_id: str, key: TopicPartition) -> bytes:
    """`int16 1, OffsetCommitKey`."""
    group = group_id.encode()
    topic = key.topic.encode()
    return b"".join(
        (
            _TYPE_AND_LENGTH.pack(1, len(group)),
            group,
            _INT16.pack(len(topic)),
            topic,
            _INT32.pack(key.partition),
        )
    )


def encode_offset_value(committed: CommittedOffset) -> bytes:
    """`int16 version, OffsetCommitValue`."""
    if committed.expire_timestamp != NO_EXPIRY:
        value = OffsetCommitValue(
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            commit_timestamp=committed.commit_timestamp,
            expire_timestamp=committed.expire_timestamp,
        )
        version = OFFSET_VALUE_VERSION_WITH_EXPIRY
        return _INT16.pack(version) + encode(value, version)
    metadata = committed.metadata.encode()
    return b"".join(
        (
            _V4_HEAD.pack(OFFSET_VALUE_VERSION, committed.offset, committed.leader_epoch),
            _unsigned_varint(len(metadata) + 1),
            metadata,
            _INT64.pack(committed.commit_timestamp),
            _NO_TAGS if committed.topic_id == ZERO_UUID else _TAG_TOPIC_ID + committed.topic_id,
        )
    )


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
    if kind in CONSUMER_KEY_TYPES:
        return decode_consumer_key(kind, key)
    if kind in SHARE_KEY_TYPES:
        return decode_share_key(kind, key)
    if kind in STREAMS_KEY_TYPES:
        return decode_streams_key(kind, key)
    return None


def offset_key_parts(key: bytes) -> tuple[str, bytes] | None:
    """The group of an offset key, and the bytes that name the partition.

    None if it is another key, or broken. Keys of one partition have the same bytes, whatever the group.
    """
    if len(key) < _TYPE_AND_LENGTH.size:
        return None
    kind, length = _TYPE_AND_LENGTH.unpack_from(key)
    start = _TYPE_AND_LENGTH.size + length
    if kind not in OFFSET_KEY_TYPES or length < 0 or len(key) < start + _INT16.size:
        return None
    topic_length: int = _INT16.unpack_from(key, start)[0]
    if topic_length < 0 or len(key) != start + _INT16.size + topic_length + _INT32.size:
        return None
    try:
        return key[_TYPE_AND_LENGTH.size : start].decode(), key[start:]
    except UnicodeDecodeError:
        return None


def decode_offset_value(value: bytes) -> CommittedOffset:
    """Raises DecodeError when it is broken or of an unknown version."""
    return _decode_v4(value) or decode_offset_value_by_codec(value)


def _decode_v4(value: bytes) -> CommittedOffset | None:
    """A value as today's brokers write it, with short metadata; None if it is another one."""
    if len(value) < _V4_HEAD.size + 1:
        return None
    version, offset, leader_epoch = _V4_HEAD.unpack_from(value)
    start = _V4_HEAD.size + 1
    end = start + value[_V4_HEAD.size] - 1
    if version != OFFSET_VALUE_VERSION or not start <= end < start + 0x7F:
        return None
    tags = value[end + _INT64.size :]
    if tags == _NO_TAGS:
        topic_id = ZERO_UUID
    elif len(tags) == len(_TAG_TOPIC_ID) + len(ZERO_UUID) and tags.startswith(_TAG_TOPIC_ID):
        topic_id = tags[len(_TAG_TOPIC_ID) :]
    else:
        return None
    try:
        metadata = value[start:end].decode()
    except UnicodeDecodeError:
        return None
    return CommittedOffset(
        offset, leader_epoch, metadata, _INT64.unpack_from(value, end)[0], NO_EXPIRY, topic_id
    )


def decode_offset_value_by_codec(value: bytes) -> CommittedOffset:
    """As `decode_offset_value`, for every version."""
    record, _ = decode_from(OffsetCommitValue, value, 2, _version(value, OffsetCommitValue.VERSIONS))
    return CommittedOffset(
        offset=record.offset,
        leader_epoch=record.leader_epoch,
        metadata=record.metadata,
        commit_timestamp=record.commit_timestamp,
        expire_timestamp=record.expire_timestamp,
        topic_id=record.topic_id,
    )


def decode_group_value(value: bytes) -> GroupMetadataValue:
    """Raises DecodeError when it is broken or of an unknown version."""
    record, _ = decode_from(GroupMetadataValue, value, 2, _version(value, GroupMetadataValue.VERSIONS))
    return record


def _version(value: bytes, supported: tuple[int, int]) -> int:
    version = _read_int16(value)
    if not supported[0] <= version <= supported[1]:
        raise DecodeError(f"version {version} is not one of {supported[0]}-{supported[1]}")
    return version


def _read_int16(data: bytes) -> int:
    if len(data) < 2:
        raise DecodeError("shorter than its type")
    number: int = _INT16.unpack_from(data)[0]
    return number


def _unsigned_varint(number: int) -> bytes:
    if number <= 0x7F:
        return _ONE_BYTE[number]
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
