"""SyncGroup: the leader sends the assignments, and each member asks for its own.

The assignments are stored before any member gets one, so that they are known after a restart. If the group
starts another rebalance meanwhile, the assignments are dropped. A member that the leader left out gets an
empty assignment. A member of a stable group gets its assignment again: it may have missed the answer, or may
be a static member that has returned.

Source: Apache Kafka's GroupMetadataManager (classicGroupSync).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from kafkapy.groups.classic.group import ClassicGroup, GroupState
from kafkapy.groups.classic.member import SyncReply, assignment_bytes
from kafkapy.groups.classic.rebalance import Rebalances
from kafkapy.groups.member_memory import MemberMemory
from kafkapy.logs.text import shortened
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

REFUSAL_SECONDS: Final = 0.5
"""How long members wait for the answer that their assignment cannot be stored at the moment.

Some clients join again at once, and the group would rebalance a thousand times a second.
"""

logger = logging.getLogger(__name__)


class Syncs:
    """Handles SyncGroup requests."""

    def __init__(self, rebalances: Rebalances, members: MemberMemory) -> None:
        """`members` has the memory that the members of all groups take."""
        self._rebalances, self._members = rebalances, members

    def sync(self, group: ClassicGroup, request: SyncGroupRequest, reply: SyncReply) -> None:
        """Answer a SyncGroup by calling `reply` exactly once, now or later."""
        try:
            member = group.require_member(request.member_id, request.group_instance_id)
            group.require_generation(request.generation_id)
            if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (
                None,
                group.protocol_name,
            ):
                raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            if group.state is GroupState.PREPARING_REBALANCE:
                raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        except KafkaError as error:
            reply(SyncGroupResponse(error_code=error.code))
            return
        self._rebalances.received_sync(group, member)
        if group.state is GroupState.STABLE:
            reply(
                SyncGroupResponse(
                    protocol_type=group.protocol_type,
                    protocol_name=group.protocol_name,
                    assignment=member.assignment,
                )
            )
            return
        member.await_sync(reply)
        if group.leader == member.member_id and group.storing_generation != group.generation:
            given = {each.member_id: bytes(each.assignment) for each in request.assignments}
            assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
            grows = sum(map(assignment_bytes, assignments.values())) - sum(
                assignment_bytes(each.assignment) for each in group.members.values()
            )
            if self._members.has_room(grows):
                self._store(group, assignments)
            else:
                logger.warning(
                    "Group %s: its assignment is refused: it takes %d bytes more than the members "
                    "of all groups may",
                    shortened(group.group_id),
                    grows,
                )
                self._rebalances.fail_assignment(group, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _store(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
        # If the leader sends SyncGroup again meanwhile, it waits for this write. So the assignments that are
        # stored last are those that members get.
        generation = group.storing_generation = group.generation

        def stored(error: ErrorCode) -> None:
            if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                self._rebalances.timers.call_later(REFUSAL_SECONDS, lambda: ended(error))
            else:
                ended(error)

        def ended(error: ErrorCode) -> None:
            if group.storing_generation == generation:
                group.storing_generation = -1
            if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != generation:
                return
            if error is ErrorCode.NONE:
                self._rebalances.assign(group, assignments)
            else:
                self._rebalances.fail_assignment(group, error)

        self._rebalances.store.store_group(group, assignments, stored)
