"""The records of consumer groups in `__consumer_offsets`.

    key                                        value, version 0
    3  ConsumerGroupMetadata                   the group epoch, and a hash of the subscribed topics' metadata
    4  ConsumerGroupPartitionMetadata          written by Kafka 4.0 and older: superseded by the hash
    5  ConsumerGroupMemberMetadata             the metadata of a member
    6  ConsumerGroupTargetAssignmentMetadata   the epoch of the target assignment
    7  ConsumerGroupTargetAssignmentMember     the target assignment of a member
    8  ConsumerGroupCurrentMemberAssignment    the epoch, state and partitions of a member
    16 ConsumerGroupRegularExpression          the topics that a regular expression matches

A null value removes the thing that the key names.

Source: Apache Kafka's GroupCoordinatorRecordHelpers and GroupCoordinatorRecordSerde.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from kafkapy.groups.consumer.member import ClassicProtocol, ConsumerMember, MemberState, Partitions
from kafkapy.groups.modern.change import VALUE_VERSION, Change, RecordTypes, encode_change
from kafkapy.groups.modern.topic_arrays import int32_array, topic_array
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.messages.consumer_group_records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)
from kafkapy.protocol.messages.consumer_group_records import ClassicProtocol as ClassicProtocolRecord
from kafkapy.protocol.plain_batch import KeyValue
from kafkapy.protocol.primitives import encode_uvarint
from kafkapy.protocol.types import Uuid

ConsumerGroupKey: TypeAlias = (
    ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)
ConsumerChange: TypeAlias = Change[ConsumerGroupKey]

Target = Mapping[Uuid, frozenset[int]]
"""The target assignment of a member: its partitions by topic id."""


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matched when it was last looked at."""

    topics: frozenset[str]
    version: int
    """The version of the metadata in which they were found."""
    timestamp: int
    """Wall clock milliseconds."""


CONSUMER_RECORDS: Final = RecordTypes[ConsumerGroupKey](
    (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
)
_CURRENT_ASSIGNMENT: Final = struct.Struct(">hiib")
"""The version of the value, the epoch of a member, its previous epoch, and its state."""
_NO_TAGS: Final = b"\x00"
_EPOCHS_TAG: Final = b"\x01\x00"
"""One tagged field follows, with tag 0."""


# --- changes ------------------------------------------------------------------------------------------


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> ConsumerChange:
    """The group has this epoch."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return Change(ConsumerGroupMetadataKey(group_id=group_id), value)


def assignment_epoch(group_id: str, epoch: int, timestamp: int) -> ConsumerChange:
    """The target assignment has this epoch.

    It was computed at `timestamp`, in wall clock milliseconds.
    """
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp)
    return Change(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_assignment(group_id: str, member_id: str, target: Target) -> ConsumerChange:
    """The member is to get these partitions."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic, partitions=sorted(partitions))
            for topic, partitions in target.items()
        ]
    )
    return Change(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def member_metadata(group_id: str, member: ConsumerMember) -> ConsumerChange:
    """The member says this of itself."""
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
    )
    # Set here, since the constructor takes None for the default. That is an empty struct, which Kafka would
    # read as a member with the classic protocol.
    value.classic_member_metadata = (
        None
        if member.classic is None
        else ClassicMemberMetadata(
            session_timeout_ms=member.classic.session_timeout_ms,
            supported_protocols=[
                ClassicProtocolRecord(name=name, metadata=metadata)
                for name, metadata in member.classic.protocols
            ],
        )
    )
    return Change(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def current_assignment(group_id: str, member: ConsumerMember) -> ConsumerChange:
    """The member has this epoch, state and partitions."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_topic_partitions(member.assigned),
        partitions_pending_revocation=_topic_partitions(member.revoking),
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return Change(key, value)


def encoded_current_assignment(group_id: str, member: ConsumerMember) -> KeyValue:
    """As `current_assignment`, for a member that may have thousands of topics.

    The value, where the topics are an array (topic_arrays.py), each with its partitions:

        int16    version                0
        int32    member epoch
        int32    previous member epoch
        int8     state
        topics   assigned
        topics   pending revocation
        uint8    tags                   0

        int32s   partitions             a compact array
        uint8    tags                   1
        uint8    tag                    0: the epochs of the assignment of the partitions
        uvarint  size
        int32s   epochs                 a compact array
    """
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    head = _CURRENT_ASSIGNMENT.pack(VALUE_VERSION, member.epoch, member.previous_epoch, member.state)
    arrays = [
        topic_array(partitions, _after_id, lambda epochs: tuple(epochs.items()))
        for partitions in (member.assigned, member.revoking)
    ]
    return encode_change(Change(key, None))[0], b"".join((head, *arrays, _NO_TAGS))


def _after_id(partitions: tuple[tuple[int, int], ...]) -> bytes:
    numbers = sorted(partitions)
    epochs = int32_array([epoch for _, epoch in numbers])
    return b"".join(
        (int32_array([each for each, _ in numbers]), _EPOCHS_TAG, encode_uvarint(len(epochs)), epochs)
    )


def regular_expression(group_id: str, regex: str, resolved: ResolvedRegex) -> ConsumerChange:
    """The regular expression matches these topics."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp
    )
    return Change(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


def regular_expression_gone(group_id: str, regex: str) -> ConsumerChange:
    """Nobody subscribes to the regular expression any more."""
    return Change(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None)


def partition_metadata_gone(group_id: str) -> ConsumerChange:
    """The record of Kafka 4.0 is superseded."""
    return Change(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_gone(group_id: str, member_id: str) -> tuple[ConsumerChange, ConsumerChange, ConsumerChange]:
    """The member is gone, in the order in which Kafka expects its tombstones."""
    return (
        Change(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        Change(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        Change(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    )


def group_gone(
    group_id: str, member_ids: Collection[str], regexes: Collection[str]
) -> Sequence[ConsumerChange]:
    """The group is gone, in the order in which Kafka expects its tombstones."""
    current, targets, metadata = [], [], []
    for member_id in member_ids:
        first, second, third = member_gone(group_id, member_id)
        current.append(first)
        targets.append(second)
        metadata.append(third)
    return (
        *current,
        *targets,
        Change(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *metadata,
        *(regular_expression_gone(group_id, regex) for regex in regexes),
        partition_metadata_gone(group_id),
        Change(ConsumerGroupMetadataKey(group_id=group_id), None),
    )


# --- values -------------------------------------------------------------------------------------------


def read_target(value: ConsumerGroupTargetAssignmentMemberValue) -> Target:
    """The partitions of a target assignment."""
    return {each.topic_id: frozenset(each.partitions) for each in value.topic_partitions}


def read_partitions(topics: Sequence[TopicPartitions], epoch: int) -> Partitions:
    """Partitions with the epochs of their assignment; `epoch`, where the record has none."""
    partitions = {}
    for each in topics:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [epoch] * len(each.partitions)
        partitions[each.topic_id] = dict(zip(each.partitions, epochs, strict=True))
    return partitions


def read_state(number: int) -> MemberState:
    """The state of a record; UNKNOWN for a number that this release does not know."""
    try:
        return MemberState(number)
    except ValueError:
        return MemberState.UNKNOWN


def read_classic(value: ClassicMemberMetadata | None) -> ClassicProtocol | None:
    """The JoinGroup of a member that uses the classic protocol.

    Raises:
        DecodeError: it supports no protocol, without which nobody can have joined.
    """
    if value is None:
        return None
    if not value.supported_protocols:
        raise DecodeError("a member with the classic protocol supports none")
    protocols: dict[str, bytes] = {}
    for each in value.supported_protocols:
        protocols.setdefault(each.name, bytes(each.metadata))
    return ClassicProtocol(value.session_timeout_ms, tuple(protocols.items()))


def read_regex(value: ConsumerGroupRegularExpressionValue) -> ResolvedRegex:
    """The topics of a regular expression."""
    return ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)


def _topic_partitions(partitions: Partitions) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic,
            partitions=sorted(epochs),
            assignment_epochs=[epochs[partition] for partition in sorted(epochs)],
        )
        for topic, epochs in partitions.items()
    ]
