"""LeaveGroup: a member leaves, or an administrator removes members.

An administrator may name static members by their group.instance.id alone.

Source: Apache Kafka's GroupMetadataManager (classicGroupLeave), KIP-345 (several members at once).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kafkapy.groups.classic.group import ClassicGroup
from kafkapy.groups.classic.join import NO_MEMBER_ID
from kafkapy.groups.classic.rebalance import Rebalances
from kafkapy.logs.text import shortened
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.leave_group import MemberIdentity, MemberResponse

logger = logging.getLogger(__name__)


def leave(
    rebalances: Rebalances, group: ClassicGroup, identities: Sequence[MemberIdentity]
) -> list[MemberResponse]:
    """Remove these members, with at most one rebalance, and return an answer for each."""
    answers = []
    members_gone = 0
    for identity in identities:
        error = ErrorCode.NONE
        try:
            members_gone += _remove(group, identity)
        except KafkaError as refused:
            error = refused.code
        answers.append(
            MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
            )
        )
    if members_gone:
        rebalances.members_left(group, f"members that left: {members_gone}")
    else:
        # The rebalance may have waited only for a pending member id that was removed.
        rebalances.complete_join_if_ready(group)
    return answers


def _remove(group: ClassicGroup, identity: MemberIdentity) -> bool:
    """Remove a member or a pending member id; return whether it was a member.

    Raises:
        KafkaError: it is neither.
    """
    member_id = identity.member_id
    instance_id = identity.group_instance_id
    if member_id == NO_MEMBER_ID and instance_id is not None:
        member_id = group.static_members.get(instance_id, NO_MEMBER_ID)
    if group.forget_pending(member_id):
        return False
    group.remove(group.require_member(member_id, instance_id))
    reason = "without a reason" if identity.reason is None else f"saying: {identity.reason}"
    who = shortened(member_id)
    logger.info("Group %s: member %s leaves, %s", shortened(group.group_id), who, shortened(reason))
    return True
