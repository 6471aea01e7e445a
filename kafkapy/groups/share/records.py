"""The records of share groups in `__consumer_offsets`.

    key                                     value, version 0
    10 ShareGroupMemberMetadata             the metadata of a member
    11 ShareGroupMetadata                   the group epoch, and a hash of the subscribed topics' metadata
    12 ShareGroupTargetAssignmentMetadata   the epoch of the target assignment
    13 ShareGroupTargetAssignmentMember     the target assignment of a member
    14 ShareGroupCurrentMemberAssignment    the epoch and partitions of a member
    15 ShareGroupStatePartitionMetadata     the share partitions that have a state

A null value removes the thing that the key names. Source: Apache Kafka's GroupCoordinatorRecordHelpers and
GroupCoordinatorRecordSerde.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from typing import Final, TypeAlias

from kafkapy.groups.modern.change import VALUE_VERSION, Change, RecordTypes, encode_change
from kafkapy.groups.modern.topic_arrays import int32_array, topic_array
from kafkapy.groups.share.member import Partitions, ShareMember
from kafkapy.groups.share.state_partitions import StatePartitions, StateTopic, StateTopics
from kafkapy.protocol.messages.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TopicInfo,
    TopicPartition,
    TopicPartitions,
    TopicPartitionsInfo,
)
from kafkapy.protocol.plain_batch import KeyValue
from kafkapy.protocol.primitives import encode_uvarint
from kafkapy.protocol.types import Uuid

ShareGroupKey: TypeAlias = (
    ShareGroupMemberMetadataKey
    | ShareGroupMetadataKey
    | ShareGroupTargetAssignmentMetadataKey
    | ShareGroupTargetAssignmentMemberKey
    | ShareGroupCurrentMemberAssignmentKey
    | ShareGroupStatePartitionMetadataKey
)
ShareChange: TypeAlias = Change[ShareGroupKey]


SHARE_RECORDS: Final = RecordTypes[ShareGroupKey](
    (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    (ShareGroupMetadataKey, ShareGroupMetadataValue),
    (ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
    (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    (ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
    (ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
)
STABLE: Final = 0
"""The only state of a member."""
_NO_TAGS: Final = b"\x00"
_VERSION: Final = struct.pack(">h", VALUE_VERSION)
_CURRENT_ASSIGNMENT: Final = struct.Struct(">hiib")
"""The version of the value, the epoch of a member, its previous epoch, and its state."""


# --- changes ------------------------------------------------------------------------------------------


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> ShareChange:
    """The group has this epoch."""
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return Change(ShareGroupMetadataKey(group_id=group_id), value)


def assignment_epoch(group_id: str, epoch: int, timestamp: int) -> ShareChange:
    """The target assignment has this epoch.

    It was computed at `timestamp`, in wall clock milliseconds.
    """
    value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp)
    return Change(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_assignment(group_id: str, member_id: str, target: Partitions) -> ShareChange:
    """The member is to get these partitions."""
    value = ShareGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic, partitions=sorted(partitions))
            for topic, partitions in target.items()
        ]
    )
    return Change(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def member_metadata(group_id: str, member: ShareMember) -> ShareChange:
    """The member says this of itself."""
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
    )
    return Change(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def current_assignment(group_id: str, member: ShareMember) -> KeyValue:
    """The member has this epoch and these partitions.

    The value, where the topics are an array (topic_arrays.py), each with an array of its partitions:

        int16    version                0
        int32    member epoch
        int32    previous member epoch
        int8     state                  0
        topics
        uint8    tags                   0
    """
    key = ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    head = _CURRENT_ASSIGNMENT.pack(VALUE_VERSION, member.epoch, member.previous_epoch, STABLE)
    topics = topic_array(member.assigned, _after_id, frozenset)
    return encode_change(Change(key, None))[0], b"".join((head, topics, _NO_TAGS))


def state_partitions(group_id: str, partitions: StatePartitions) -> ShareChange:
    """These share partitions have a state, get one or lose it."""
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_topics_info(partitions.initializing),
        initialized_topics=_topics_info(partitions.initialized),
        deleting_topics=[
            TopicInfo(topic_id=topic, topic_name=name) for topic, name in partitions.deleting.items()
        ],
    )
    return Change(ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


class StateRecords:
    """Encodes the records `state_partitions` of one group.

    Such a record names all share partitions of the group, of which few change at a time. So the bytes of each
    topic are kept. A test compares them with those of the codec:

        int16    version    0
        topics              initializing: a compact array of the topics below
        topics              initialized
        topics              deleting, without partitions
        uint8    tags       0

        bytes    topic id   16
        string   name       compact
        int32s   partitions a compact array
        uint8    tags       0
    """

    def __init__(self) -> None:
        self._topics: dict[Uuid, tuple[StateTopic, bytes]] = {}

    def encode(self, group_id: str, partitions: StatePartitions) -> KeyValue:
        """The key and value of the record."""
        key, _ = encode_change(Change(ShareGroupStatePartitionMetadataKey(group_id=group_id), None))
        before, now = self._topics, {}
        parts = [_VERSION]
        for topics in (partitions.initializing, partitions.initialized):
            parts.append(encode_uvarint(len(topics) + 1))
            for topic, each in topics.items():
                known = before.get(topic)
                if known is None or known[0] is not each:
                    known = each, _encoded_topic(topic, each)
                now[topic] = known
                parts.append(known[1])
        self._topics = now
        parts.append(encode_uvarint(len(partitions.deleting) + 1))
        parts += (topic + _compact(name) + _NO_TAGS for topic, name in partitions.deleting.items())
        parts.append(_NO_TAGS)
        return key, b"".join(parts)


def _encoded_topic(topic: Uuid, each: StateTopic) -> bytes:
    return b"".join((topic, _compact(each.name), _after_id(each.partitions)))


def _after_id(partitions: frozenset[int]) -> bytes:
    return int32_array(sorted(partitions)) + _NO_TAGS


def _compact(text: str) -> bytes:
    encoded = text.encode()
    return encode_uvarint(len(encoded) + 1) + encoded


def member_gone(group_id: str, member_id: str) -> tuple[ShareChange, ShareChange, ShareChange]:
    """The member is gone, in the order in which Kafka expects its tombstones."""
    return (
        Change(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        Change(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        Change(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    )


def group_gone(group_id: str, member_ids: Collection[str]) -> Sequence[ShareChange]:
    """The group is gone, in the order in which Kafka expects its tombstones."""
    gone = [member_gone(group_id, member_id) for member_id in member_ids]
    return (
        *(current for current, _, _ in gone),
        *(target for _, target, _ in gone),
        Change(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *(metadata for _, _, metadata in gone),
        Change(ShareGroupStatePartitionMetadataKey(group_id=group_id), None),
        Change(ShareGroupMetadataKey(group_id=group_id), None),
    )


# --- values -------------------------------------------------------------------------------------------


def read_partitions(topics: Sequence[TopicPartition] | Sequence[TopicPartitions]) -> Partitions:
    """The partitions of an assignment."""
    shared: dict[frozenset[int], frozenset[int]] = {}
    return {
        each.topic_id: shared.setdefault(numbers := frozenset(each.partitions), numbers) for each in topics
    }


def read_state_partitions(value: ShareGroupStatePartitionMetadataValue) -> StatePartitions:
    """The share partitions that have a state, get one or lose it."""
    return StatePartitions(
        _read_topics(value.initializing_topics),
        _read_topics(value.initialized_topics),
        {each.topic_id: each.topic_name for each in value.deleting_topics},
    )


def _topics_info(topics: StateTopics) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=topic, topic_name=name, partitions=sorted(partitions))
        for topic, (name, partitions) in topics.items()
    ]


def _read_topics(topics: Sequence[TopicPartitionsInfo]) -> StateTopics:
    return {each.topic_id: StateTopic(each.topic_name, frozenset(each.partitions)) for each in topics}
