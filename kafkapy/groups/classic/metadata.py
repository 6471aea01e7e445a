"""Converts a classic group to and from its record (GroupMetadataValue)."""

from __future__ import annotations

from collections.abc import Mapping

from kafkapy.groups.classic.group import ClassicGroup, GroupState
from kafkapy.groups.classic.member import Member
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.messages.group_records import GroupMetadataValue, MemberMetadata


def group_metadata(group: ClassicGroup, assignments: Mapping[str, bytes]) -> GroupMetadataValue:
    """The record of the group as it is now, with these assignments by member id."""
    return GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader,
        current_state_timestamp=group.state_timestamp,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol_name),
                assignment=assignments[member.member_id],
            )
            for member in group.members.values()
        ],
    )


def restore_group(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group of a record: Stable if it has members, else Empty.

    Raises:
        DecodeError: there are members without a protocol, or two members with one id.
    """
    group = ClassicGroup(group_id, value.current_state_timestamp)
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    if value.members and (value.protocol is None or not value.protocol_type):
        raise DecodeError(f"group {group_id} has members but no protocol")
    for each in value.members:
        if each.member_id in group.members or each.group_instance_id in group.static_members:
            raise DecodeError(f"group {group_id} has member {each.member_id} twice")
        assert value.protocol is not None
        group.add(
            Member(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                rebalance_timeout_ms=(
                    each.session_timeout if each.rebalance_timeout == -1 else each.rebalance_timeout
                ),
                session_timeout_ms=each.session_timeout,
                protocol_type=value.protocol_type,
                protocols=((value.protocol, bytes(each.subscription)),),
                assignment=bytes(each.assignment),
            )
        )
    if group.members:
        group.state = GroupState.STABLE
        if value.leader in group.members:
            group.leader = value.leader
    group.compute_subscription()
    return group
