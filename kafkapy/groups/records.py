"""The keys of the records of `__consumer_offsets`, by type.

    0, 1       committed offsets (offsets/records.py); type 0 is how Kafka 0.8 wrote type 1
    2          classic groups (classic/records.py)
    others     consumer groups, share groups and streams groups (records.py of each); all else is ignored

Source: Apache Kafka's GroupCoordinatorRecordSerde.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkapy.groups.classic.records import GROUP_KEY_TYPE
from kafkapy.groups.consumer.records import CONSUMER_RECORDS, ConsumerGroupKey
from kafkapy.groups.share.records import SHARE_RECORDS, ShareGroupKey
from kafkapy.groups.streams.records import STREAMS_RECORDS, StreamsGroupKey
from kafkapy.protocol import coordinator_records
from kafkapy.protocol.messages.group_records import GroupMetadataKey, OffsetCommitKey
from kafkapy.protocol.types import TopicPartition

OFFSET_KEY_TYPES: Final = (0, 1)


class OffsetKey(NamedTuple):
    """Key of a committed offset."""

    group_id: str
    partition: TopicPartition


class GroupKey(NamedTuple):
    """Key of a group's metadata."""

    group_id: str


def decode_key(
    key: bytes,
) -> OffsetKey | GroupKey | ConsumerGroupKey | ShareGroupKey | StreamsGroupKey | None:
    """Decode the key of a record; None for a type that is ignored.

    Raises:
        DecodeError: it is broken.
    """
    kind = coordinator_records.type_of(key)
    if kind in OFFSET_KEY_TYPES:
        offset_key = coordinator_records.decode_key(OffsetCommitKey, key)
        return OffsetKey(offset_key.group, TopicPartition(offset_key.topic, offset_key.partition))
    if kind == GROUP_KEY_TYPE:
        group_key = coordinator_records.decode_key(GroupMetadataKey, key)
        return GroupKey(group_key.group)
    if kind in CONSUMER_RECORDS:
        return CONSUMER_RECORDS.decode_key(kind, key)
    if kind in SHARE_RECORDS:
        return SHARE_RECORDS.decode_key(kind, key)
    if kind in STREAMS_RECORDS:
        return STREAMS_RECORDS.decode_key(kind, key)
    return None
