"""LeaveGroup: take members out of a group, which starts a rebalance.

Versions: 0-5.

Behaviour:

- A member is named by its id, or by its `group.instance.id` alone. The latter is how an administrator takes
  out a static member; such a client does not send LeaveGroup itself. Members with the consumer protocol are
  taken out so too (`Admin.removeMembersFromConsumerGroup`).
- A member that is named twice is answered once.

Version notes:

- v3 takes several members and answers for each. Before it, the error of the one member is the answer.
- v5 adds the reason.
"""

from __future__ import annotations

from typing import Final

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import visit_each
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

FIRST_VERSION_WITH_MEMBERS: Final = 3


def handle(context: RequestContext, request: LeaveGroupRequest) -> Steps[LeaveGroupResponse]:
    """Remove the members."""
    groups = context.broker.groups
    has_members = context.api_version >= FIRST_VERSION_WITH_MEMBERS
    named = request.members if has_members else [MemberIdentity(member_id=request.member_id)]
    answers: dict[tuple[str, str | None], MemberResponse] = {}
    members: list[MemberIdentity] = []

    def find(each: MemberIdentity) -> None:
        key = each.member_id, each.group_instance_id
        if key in answers:
            return
        answers[key] = MemberResponse(
            member_id=each.member_id,
            group_instance_id=each.group_instance_id,
            error_code=ErrorCode.UNKNOWN_MEMBER_ID,
        )
        if groups.is_pending(request.group_id, each):
            (answers[key],) = groups.leave_group(request.group_id, [each])
        elif groups.may_be_member(request.group_id, each):
            members.append(each)

    try:
        yield from visit_each(named, find)
        # Without a pause: together they start one rebalance.
        for answer in groups.leave_group(request.group_id, members):
            answers[answer.member_id, answer.group_instance_id] = answer
    except KafkaError as error:
        return LeaveGroupResponse(error_code=error.code)
    if has_members:
        return LeaveGroupResponse(members=list(answers.values()))
    (answer,) = answers.values()
    return LeaveGroupResponse(error_code=answer.error_code)
