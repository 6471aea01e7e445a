"""DescribeGroups: show the state, members and assignments of groups.

Versions: 0-6.

Behaviour:

- The protocol and the members' metadata are shown for a stable group only. In other states they are about
  to change.
- A group that does not exist is Dead.
- A group that is named twice is described once.

Version notes:

- v3 can ask which operations the client may do on each group: all of them here.
- v4 adds static membership.
- v6 answers GROUP_ID_NOT_FOUND with a message for a group that does not exist (KIP-1043).
"""

from __future__ import annotations

from typing import Final

from kafkapy.groups.classic.group import ClassicGroup, GroupState
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_each
from kafkapy.loop.turns import Steps, counted
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafkapy.security.acls.model import Operation, ResourceType

FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND: Final = 6


def handle(context: RequestContext, request: DescribeGroupsRequest) -> Steps[DescribeGroupsResponse]:
    """Describe each group once."""

    def describe(group_id: str) -> DescribedGroup:
        described = _describe(context, group_id)
        if request.include_authorized_operations and not described.error_code:
            described.authorized_operations = context.operations_on(ResourceType.GROUP, group_id)
        return described

    groups = yield from answer_each((yield from counted(request.groups)), describe)
    return DescribeGroupsResponse(groups=groups)


def _describe(context: RequestContext, group_id: str) -> DescribedGroup:
    try:
        context.require(Operation.DESCRIBE, ResourceType.GROUP, group_id)
        described = _described(context.broker.groups.require_classic_group(group_id))
        # The bytes are those of the group; they are copied when the answer is encoded.
        nbytes = sum(len(each.member_metadata) + len(each.member_assignment) for each in described.members)
        context.charge(6 * len(described.members), nbytes, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return described
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            return DescribedGroup(group_id=group_id, error_code=error.code)
        dead = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        if context.api_version >= FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND:
            dead.error_code = error.code
            dead.error_message = error.message
        return dead


def _described(group: ClassicGroup) -> DescribedGroup:
    stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol_name) if stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )
