"""SyncGroup: the leader brings the assignments, and members ask for theirs.

The assignment is stored before anybody gets it, so that a coordinator that restarts knows what it has handed
out. If the group went on to another rebalance meanwhile, the assignment is of no use any more. A member that
the leader forgot gets an empty assignment. In a stable group a member is told its assignment again: it may
have missed the answer, or may be a static member that has come back.

Source: Apache Kafka's GroupMetadataManager (classicGroupSync).
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkapy.groups.classic.group import ClassicGroup, GroupState
from kafkapy.groups.classic.member import SyncReply
from kafkapy.groups.classic.rebalance import Rebalances
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class Syncs:
    """Brings members and assignments together."""

    def __init__(self, rebalances: Rebalances) -> None:
        self._rebalances = rebalances

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
            self._store(group, {member_id: given.get(member_id, b"") for member_id in group.members})

    def _store(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
        # A leader that asks again meanwhile waits for this one: what is stored last is what is handed out.
        generation = group.storing_generation = group.generation

        def stored(error: ErrorCode) -> None:
            if group.storing_generation == generation:
                group.storing_generation = -1
            if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != generation:
                return
            if error is ErrorCode.NONE:
                self._rebalances.assign(group, assignments)
            else:
                self._rebalances.fail_assignment(group, error)

        self._rebalances.store.store_group(group, assignments, stored)
