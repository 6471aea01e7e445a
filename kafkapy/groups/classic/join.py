"""JoinGroup: a client wants to become a member, or to stay one.

Without a member id:

- A static member gets an id and joins. It replaces the member with its group.instance.id.
- A dynamic member gets an id, with which it must join again (v4+, KIP-394). So a client that gives up leaves
  no member in the group. In v0-v3 it joins at once.

With a member id:

- A pending id becomes a member.
- A member of a group that is collecting waits for the next generation.
- A member whose metadata changed starts a rebalance, and so does the leader of a stable group.
- Any other member may have missed the answer, and is told the current generation again.

A static member may come back to a stable group without changing the group's protocol. It then takes over its
old assignment without a rebalance, once its new id is stored. From v9 a leader is told to skip the assignment
(KIP-814). Before v9 it is given the old leader's id, so that it does not take itself for the leader.

Source: Apache Kafka's GroupMetadataManager (classicGroupJoin).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kafkapy.groups.classic.group import ClassicGroup, GroupState
from kafkapy.groups.classic.member import JoinReply, Member, Protocols, member_bytes
from kafkapy.groups.classic.rebalance import Rebalances
from kafkapy.logs.text import shortened
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.join_group import JoinGroupResponse

NO_MEMBER_ID: Final = ""
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""How long a new member may wait in JoinGroup: it cannot send heartbeats yet.

No setting, as in Kafka (GroupCoordinatorConfig.CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS).
"""
MOST_OF_PREFIX: Final = 255
"""The characters of a client id (or a group.instance.id) with which a member id begins, at most.

A request may bring 32,767. An id that is handed out is kept for a session timeout, whether its client joins
or not.
"""
NEW_ID_BYTES: Final = 2 * (MOST_OF_PREFIX + 100)
"""The memory that an id takes that is handed out, which a consumer group keeps twice, at most."""
MOST_PENDING: Final = 20_000
"""The member ids of a group that are handed out and not used yet, at most: each takes up to 1 KB."""
FIRST_VERSION_WITH_REQUIRED_MEMBER_ID: Final = 4
_FIRST_VERSION_WITH_SKIP_ASSIGNMENT: Final = 9


@dataclass(frozen=True, slots=True)
class Joining:
    """A JoinGroup request and its sender.

    Times in milliseconds.
    """

    version: int
    client_id: str
    client_host: str
    member_id: str
    group_instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    reason: str

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory the member will take."""
        nbytes = member_bytes(
            self.protocols,
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.protocol_type,
        )
        return nbytes if self.member_id else nbytes + NEW_ID_BYTES


class Joins:
    """Adds members to groups."""

    def __init__(self, rebalances: Rebalances, new_id: Callable[[], str]) -> None:
        self._rebalances = rebalances
        self._new_id = new_id
        """What comes after the client id (or the group.instance.id) in a member id: a random UUID, except in
        tests.
        """

    def join(self, group: ClassicGroup, joining: Joining, reply: JoinReply) -> None:
        """Answer a JoinGroup by calling `reply` exactly once, now or later."""
        try:
            if not self._has_room(group, joining.member_id):
                self._turn_away(group, joining.member_id)
                reply(JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED))
                return
            if not group.supports(joining.protocol_type, [name for name, _ in joining.protocols]):
                raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            if joining.member_id == NO_MEMBER_ID:
                self._join_new(group, joining, reply)
            elif joining.member_id in group.pending and joining.group_instance_id is None:
                self._add(group, joining, joining.member_id, reply)
            else:
                self._rejoin(group, joining, reply)
        except KafkaError as error:
            reply(JoinGroupResponse(member_id=joining.member_id, error_code=error.code))

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether group.max.size allows this one.

        Among members that rejoin, the first stay.
        """
        member = group.members.get(member_id)
        if group.state is GroupState.EMPTY:
            return True
        if group.state is GroupState.PREPARING_REBALANCE:
            if member is not None and member.join_reply is not None:
                return True
            return group.awaiting_join < self._rebalances.config.max_size
        return member is not None or len(group.members) < self._rebalances.config.max_size

    def _turn_away(self, group: ClassicGroup, member_id: str) -> None:
        group.forget_pending(member_id)
        member = group.members.get(member_id)
        if member is not None:
            group.remove(member)
        self._rebalances.complete_join_if_ready(group)

    # --- newcomers ------------------------------------------------------------------------------------

    def _join_new(self, group: ClassicGroup, joining: Joining, reply: JoinReply) -> None:
        instance_id = joining.group_instance_id
        prefix = joining.client_id if instance_id is None else instance_id
        member_id = f"{prefix[:MOST_OF_PREFIX]}-{self._new_id()}"
        if instance_id is None:
            if joining.version >= FIRST_VERSION_WITH_REQUIRED_MEMBER_ID:
                if len(group.pending) >= MOST_PENDING:
                    raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
                self._rebalances.add_pending(group, member_id, joining.session_timeout_ms)
                reply(JoinGroupResponse(member_id=member_id, error_code=ErrorCode.MEMBER_ID_REQUIRED))
            else:
                self._add(group, joining, member_id, reply)
        elif instance_id in group.static_members:
            self._replace_static(group, joining, member_id, reply)
        else:
            self._add(group, joining, member_id, reply)

    def _add(self, group: ClassicGroup, joining: Joining, member_id: str, reply: JoinReply) -> None:
        member = Member(
            member_id=member_id,
            group_instance_id=joining.group_instance_id,
            client_id=joining.client_id,
            client_host=joining.client_host,
            rebalance_timeout_ms=joining.rebalance_timeout_ms,
            session_timeout_ms=joining.session_timeout_ms,
            protocol_type=joining.protocol_type,
            protocols=joining.protocols,
            is_new=True,
        )
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            group.new_member_added = True
        group.add(member, reply)
        self._rebalances.sessions.touch(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        who, reason = shortened(member_id), shortened(joining.reason)
        self._rebalances.rebalance_or_complete(group, f"new member {who}, who says: {reason}")

    # --- members --------------------------------------------------------------------------------------

    def _rejoin(self, group: ClassicGroup, joining: Joining, reply: JoinReply) -> None:
        member = group.require_member(joining.member_id, joining.group_instance_id)
        state = group.state
        unchanged = member.protocols == joining.protocols
        if unchanged and (
            state is GroupState.COMPLETING_REBALANCE
            or (state is GroupState.STABLE and group.leader != member.member_id)
        ):
            reply(group.join_response(member))
            return
        self._update(group, member, joining)
        group.await_join(member, reply)
        who = "the leader" if group.leader == member.member_id else "member"
        self._rebalances.rebalance_or_complete(
            group,
            f"{who} {shortened(member.member_id)} joins again and says: {shortened(joining.reason)}",
        )

    @staticmethod
    def _update(group: ClassicGroup, member: Member, joining: Joining) -> None:
        group.update(member, joining.protocols, joining.rebalance_timeout_ms, joining.session_timeout_ms)

    # --- static members that come back ----------------------------------------------------------------

    def _replace_static(
        self, group: ClassicGroup, joining: Joining, member_id: str, reply: JoinReply
    ) -> None:
        assert joining.group_instance_id is not None
        old = group.members[group.static_members[joining.group_instance_id]]
        old_leader = group.leader
        member = group.replace_static(old, member_id)
        self._rebalances.sessions.touch(group, member)
        self._update(group, member, joining)
        group.await_join(member, reply)
        if group.state is not GroupState.STABLE:
            # In CompletingRebalance the leader may be assigning partitions to the old member id.
            self._rebalances.rebalance_or_complete(group, f"static member {shortened(member_id)} joins again")
            return
        if group.select_protocol() != group.protocol_name:
            self._rebalances.prepare(
                group, f"static member {shortened(member_id)} joins with other protocols"
            )
            return

        def stored(error: ErrorCode) -> None:
            if member.join_reply is not reply or group.state is not GroupState.STABLE:
                return  # answered, or waiting for the rebalance that began meanwhile
            if error is not ErrorCode.NONE:
                group.answer_join(member, JoinGroupResponse(error_code=error))
                self._restore_static(group, member, old)
                return
            response = group.join_response(member)
            if joining.version >= _FIRST_VERSION_WITH_SKIP_ASSIGNMENT:
                response.skip_assignment = group.leader == member_id
            else:
                response.leader = old_leader or ""
                response.members = []
            group.answer_join(member, response)
            self._rebalances.sessions.touch(group, member)

        assignments = {key: each.assignment for key, each in group.members.items()}
        self._rebalances.store.store_group(group, assignments, stored)

    def _restore_static(self, group: ClassicGroup, member: Member, old: Member) -> None:
        """Make the old id of a static member valid again.

        The new id could not be stored, and a restart would bring back the old one.
        """
        restored = group.replace_static(member, old.member_id)
        group.update(restored, old.protocols, old.rebalance_timeout_ms, old.session_timeout_ms)
        self._rebalances.sessions.touch(group, restored)
