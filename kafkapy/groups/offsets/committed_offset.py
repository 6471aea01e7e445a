"""A committed offset, as the value of its record: `int16 version, OffsetCommitValue`.

Offsets are kept in memory as these bytes. There may be millions, and an object for each would take more than
twice as much, and time of every garbage collection. Nor is one made for a commit or for a start of the
broker. The reader of an offset decodes it.

As Apache Kafka 4.x does, the broker writes v4 (v1 if the client set an expiry, which has no leader epoch and
no topic id); it reads all versions. v4 is encoded and decoded by hand here; a test compares it with the
codec. Most offsets have no metadata and a topic id, and are one struct of 42 bytes:

    int16   version         4
    int64   offset
    int32   leader epoch
    uint8   metadata        1: it is empty
    int64   commit timestamp
    bytes   tagged fields   3: one field, its tag is 0, it has 16 bytes
    bytes   topic id        16

Source: Apache Kafka's GroupCoordinatorRecordHelpers and GroupCoordinatorRecordSerde.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, TypeAlias

from kafkapy.protocol.coordinator_records import decode_value, encode_value
from kafkapy.protocol.messages.group_records import OffsetCommitValue
from kafkapy.protocol.primitives import encode_uvarint
from kafkapy.protocol.types import ZERO_UUID, Uuid

EncodedOffset: TypeAlias = bytes
"""A committed offset as the value of its record."""

NO_EXPIRY: Final = -1

OFFSET_VERSION: Final = 4
"""The version of the values that are written, if the client set no expiry."""
_VERSION_WITH_EXPIRY: Final = 1

_INT64: Final = struct.Struct(">q")
_HEAD: Final = struct.Struct(">hqi")  # version, offset, leader epoch
_PLAIN_TAIL: Final = struct.Struct(">Bq3s16s")
_PLAIN: Final = struct.Struct(f"{_HEAD.format}{_PLAIN_TAIL.size}s")  # the head, the tail
assert _PLAIN.size == 42
_VERSION_BYTES: Final = struct.pack(">h", OFFSET_VERSION)
_NO_METADATA: Final = 1  # the length of a compact string is one less
_SIZE_BYTES: Final = 1
_TAG_TOPIC_ID: Final = b"\x01\x00\x10"
_NO_TAGS: Final = b"\x00"


class CommittedOffset(NamedTuple):
    """One committed offset.

    Times are wall clock milliseconds.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = NO_EXPIRY
    """Set from the retention time of an OffsetCommit v2-v4; otherwise the broker's retention applies."""
    topic_id: Uuid = ZERO_UUID

    def is_of_topic(self, topic_id: Uuid) -> bool:
        """Return False if both topic ids are known and differ: the topic was created again."""
        return ZERO_UUID in (topic_id, self.topic_id) or topic_id == self.topic_id


def encode_offset(
    offset: int,
    leader_epoch: int,
    metadata: str,
    commit_timestamp: int,
    expire_timestamp: int = NO_EXPIRY,
    topic_id: Uuid = ZERO_UUID,
) -> EncodedOffset:
    """The bytes of a `CommittedOffset` of these fields."""
    if expire_timestamp != NO_EXPIRY:
        value = OffsetCommitValue(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=metadata,
            commit_timestamp=commit_timestamp,
            expire_timestamp=expire_timestamp,
        )
        return encode_value(value, _VERSION_WITH_EXPIRY)
    if not metadata and topic_id != ZERO_UUID:
        return encode_plain(
            OFFSET_VERSION, offset, leader_epoch, encode_plain_tail(commit_timestamp, topic_id)
        )
    text = metadata.encode()
    return b"".join(
        (
            _HEAD.pack(OFFSET_VERSION, offset, leader_epoch),
            encode_uvarint(len(text) + 1),
            text,
            _INT64.pack(commit_timestamp),
            _NO_TAGS if topic_id == ZERO_UUID else _TAG_TOPIC_ID + topic_id,
        )
    )


def encode_annotated(offset: int, leader_epoch: int, metadata: str, tail: bytes) -> EncodedOffset:
    """The bytes of an offset with metadata, without expiry.

    It ends as the offsets of the topic without metadata do, with an `encode_plain_tail`.
    """
    text = metadata.encode()
    size = len(text) + 1
    encoded_size = bytes((size,)) if size < 0x80 else encode_uvarint(size)
    return _HEAD.pack(OFFSET_VERSION, offset, leader_epoch) + encoded_size + text + tail[_SIZE_BYTES:]


encode_plain: Final = _PLAIN.pack
"""The bytes of an offset without metadata or expiry.

Its arguments are OFFSET_VERSION, the offset, the leader epoch and an `encode_plain_tail`. With the version
bound, a call would take a quarter longer.
"""


def encode_plain_tail(commit_timestamp: int, topic_id: Uuid) -> bytes:
    """The end of offsets without metadata or expiry.

    It is the same for all partitions of a topic that are committed together. The topic must have an id.
    """
    return _PLAIN_TAIL.pack(_NO_METADATA, commit_timestamp, _TAG_TOPIC_ID, topic_id)


def require_readable(value: EncodedOffset) -> None:
    """Raise DecodeError if `decode_offset` would."""
    if (
        len(value) != _PLAIN.size
        or value[14] != _NO_METADATA
        or value[23:26] != _TAG_TOPIC_ID
        or value[:2] != _VERSION_BYTES
    ):
        decode_offset(value)


def decode_offset(value: EncodedOffset) -> CommittedOffset:
    """Raises DecodeError when it is broken or of an unknown version."""
    return _decode_v4(value) or decode_offset_by_codec(value)


def _decode_v4(value: EncodedOffset) -> CommittedOffset | None:
    """A value as today's brokers write it, with short metadata; None if it is another one."""
    if len(value) < _HEAD.size + 1:
        return None
    version, offset, leader_epoch = _HEAD.unpack_from(value)
    start = _HEAD.size + 1
    end = start + value[_HEAD.size] - 1
    if version != OFFSET_VERSION or not start <= end < start + 0x7F:
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


def decode_offset_by_codec(value: EncodedOffset) -> CommittedOffset:
    """As `decode_offset`, for every version."""
    record, _ = decode_value(OffsetCommitValue, value)
    return CommittedOffset(
        offset=record.offset,
        leader_epoch=record.leader_epoch,
        metadata=record.metadata,
        commit_timestamp=record.commit_timestamp,
        expire_timestamp=record.expire_timestamp,
        topic_id=record.topic_id,
    )
