"""LeaveGroup: members leave by themselves, or an administrator removes them.

An administrator names static members by their group.instance.id.

Source: Apache Kafka's GroupMetadataManager (classicGroupLeave), KIP-345 (several members at once).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kafkapy.groups.classic.group import ClassicGroup
from kafkapy.groups.classic.join import NO_MEMBER_ID
from kafkapy.groups.classic.rebalance import Rebalances
from kafkapy.process.log_text import shortened
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.leave_group import MemberIdentity, MemberResponse

logger = logging.getLogger(__name__)


def leave(
    rebalances: Rebalances, group: ClassicGroup, identities: Sequence[MemberIdentity]
) -> list[MemberResponse]:
    """Remove these members; one answer each. Together they start one rebalance at most."""
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
        # A pending id that is given up may be the last one a rebalance waits for.
        rebalances.complete_join_if_ready(group)
    return answers


def _remove(group: ClassicGroup, identity: MemberIdentity) -> bool:
    """Remove a member (True) or a pending id (False); raises KafkaError where there is neither."""
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
