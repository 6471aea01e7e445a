"""Turns a classic group into a consumer group, and back, while its members work.

A classic group becomes a consumer group when the first member joins with ConsumerGroupHeartbeat. Its members
keep their assignment, and are told to rejoin when there is a new one. A consumer group becomes a classic
group when the last member that uses the consumer protocol goes. group.consumer.migration.policy may forbid
either; groups without members may always change.

Source: Apache Kafka's ConsumerGroup.fromClassicGroup, ClassicGroup.fromConsumerGroup.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from kafkapy.groups.classic.group import ClassicGroup, GroupState
from kafkapy.groups.classic.member import Member
from kafkapy.groups.classic.subscription import CONSUMER_PROTOCOL_TYPE
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.consumer import records
from kafkapy.groups.consumer.group import ConsumerGroup
from kafkapy.groups.consumer.member import ClassicProtocol, ConsumerMember
from kafkapy.groups.consumer.records import ConsumerChange, Target
from kafkapy.groups.modern.topics import TopicsView
from kafkapy.protocol.codec import decode_from, encode
from kafkapy.protocol.errors import DecodeError, ErrorCode, KafkaError
from kafkapy.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)

_VERSION: Final = struct.Struct(">h")


# --- what classic members say to each other -----------------------------------------------------------


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """The subscription in JoinGroup metadata; raises DecodeError."""
    version = min(_read_version(metadata), ConsumerProtocolSubscription.VERSIONS[1])
    found, _ = decode_from(ConsumerProtocolSubscription, metadata, _VERSION.size, version)
    return found


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """The assignment in SyncGroup; raises DecodeError."""
    version = min(_read_version(assignment), ConsumerProtocolAssignment.VERSIONS[1])
    found, _ = decode_from(ConsumerProtocolAssignment, assignment, _VERSION.size, version)
    return found


def classic_assignment(
    partitions: Mapping[bytes, Collection[int]], metadata: bytes, topics: TopicsView
) -> bytes:
    """Partitions as a classic member gets them, in the version in which it subscribed."""
    version = max(min(_read_version(metadata), ConsumerProtocolAssignment.VERSIONS[1]), 0)
    value = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=numbers)
            for name, numbers in topics.names_of(partitions).items()
        ]
    )
    return _VERSION.pack(version) + encode(value, version)


def _read_version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise DecodeError("shorter than its version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise DecodeError(f"version {version}")
    return version


# --- classic to consumer ------------------------------------------------------------------------------


def require_upgrade(group: ClassicGroup, config: GroupConfig) -> None:
    """Raise KafkaError GROUP_ID_NOT_FOUND if the group cannot become a consumer group."""
    why = None
    if not config.upgrades:
        why = "online upgrade is disabled"
    elif group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        why = "the group does not use the consumer embedded protocol"
    elif len(group.members) > config.consumer_max_size:
        why = "the group size exceeds the consumer group maximum size"
    if why is not None:
        raise _no_upgrade(group, why)


def consumer_group_of(
    group: ClassicGroup, topics: TopicsView
) -> tuple[ConsumerGroup, Sequence[ConsumerChange]]:
    """The consumer group that a classic group becomes, and its records.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND.
    """
    group_id, epoch = group.group_id, group.generation
    protocol = group.protocol_name or group.select_protocol()
    metadata: list[ConsumerChange] = []
    targets: list[ConsumerChange] = []
    current: list[ConsumerChange] = []
    names: set[str] = set()
    for member in group.members.values():
        try:
            subscription = read_subscription(member.metadata(protocol))
            assignment = (
                read_assignment(member.assignment) if member.assignment else ConsumerProtocolAssignment()
            )
        except DecodeError:
            raise _no_upgrade(group, "the embedded consumer protocol is malformed") from None
        if assignment.user_data:
            raise _no_upgrade(
                group,
                "an unsupported custom assignor is in use. Please refer to the documentation "
                "or switch to a default assignor before re-attempting the upgrade",
            )
        names.update(subscription.topics)
        target: Target = {
            topics.image.topics[each.topic].id: frozenset(each.partitions)
            for each in assignment.assigned_partitions
            if each.topic in topics.image.topics
        }
        converted = ConsumerMember(
            member.member_id,
            epoch=epoch,
            previous_epoch=epoch,
            instance_id=member.group_instance_id,
            rack_id=subscription.rack_id or None,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            client_id=member.client_id,
            client_host=member.client_host,
            topic_names=frozenset(subscription.topics),
            classic=ClassicProtocol(member.session_timeout_ms, member.protocols),
            assigned={topic: dict.fromkeys(partitions, epoch) for topic, partitions in target.items()},
        )
        metadata.append(records.member_metadata(group_id, converted))
        targets.append(records.target_assignment(group_id, member.member_id, target))
        current.append(records.current_assignment(group_id, converted))
    changes = (
        *metadata,
        records.group_epoch(group_id, epoch, topics.hash(names)),
        *targets,
        records.assignment_epoch(group_id, epoch, 0),
        *current,
    )
    converted_group = ConsumerGroup(group_id)
    for change in changes:
        converted_group.replay(change)
    return converted_group, changes


def _no_upgrade(group: ClassicGroup, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {why}.",
    )


# --- consumer to classic ------------------------------------------------------------------------------


def classic_group_of(
    group: ConsumerGroup, topics: TopicsView, *, without: Collection[str], now_ms: int
) -> ClassicGroup:
    """The stable classic group that a consumer group becomes.

    All members that are left use the classic protocol.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND, they have no protocol in common, or one that cannot be read.
    """
    classic = ClassicGroup(group.group_id, now_ms)
    classic.generation = group.epoch
    for member_id, member in group.members.items():
        if member_id in without:
            continue
        assert member.classic is not None
        classic.add(
            Member(
                member_id=member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.classic.session_timeout_ms,
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                protocols=member.classic.protocols,
            )
        )
    classic.state = GroupState.STABLE
    if not classic.has_common_protocol:
        raise _no_downgrade(group, "its members have no protocol in common")
    classic.protocol_name = classic.select_protocol()
    classic.compute_subscription()
    try:
        for each in classic.members.values():
            target = group.target(each.member_id)
            metadata = each.metadata(classic.protocol_name)
            classic.set_assignment(each, classic_assignment(target, metadata, topics))
    except DecodeError as error:
        raise _no_downgrade(group, f"a subscription cannot be read: {error}") from None
    return classic


def _no_downgrade(group: ConsumerGroup, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot downgrade consumer group {group.group_id} to classic group because {why}.",
    )
