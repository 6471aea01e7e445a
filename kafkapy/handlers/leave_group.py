"""LeaveGroup: members go, which starts a rebalance.

Versions: 0-5.

Behaviour: a member is named by its id, or by its group.instance.id alone, which is how an administrator
takes out a static member; such a client itself does not leave.

Version notes: v3 lets several members go and answers for each; before, the one member's error is the answer.
v5 adds the reason.
"""

from __future__ import annotations

from typing import Final

from kafkapy.context import RequestContext
from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

FIRST_VERSION_WITH_MEMBERS: Final = 3


def handle(context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Let the members go."""
    groups = context.broker.groups
    has_members = context.api_version >= FIRST_VERSION_WITH_MEMBERS
    identities = request.members if has_members else [MemberIdentity(member_id=request.member_id)]
    try:
        answers = groups.leave_group(request.group_id, identities)
    except KafkaError as error:
        return LeaveGroupResponse(error_code=error.code)
    if has_members:
        return LeaveGroupResponse(members=answers)
    return LeaveGroupResponse(error_code=answers[0].error_code)
