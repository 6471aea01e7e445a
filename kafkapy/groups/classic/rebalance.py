"""Rebalances: how a group gets from one generation to the next.

1. `prepare`: the group collects JoinGroup requests. The other members get REBALANCE_IN_PROGRESS as the answer
   to their next heartbeat, and rejoin. A group that was empty waits group.initial.rebalance.delay.ms, and as
   long again if members joined meanwhile, but no longer than the rebalance timeout. Any other group waits
   until all its members have joined, and no longer than the rebalance timeout.
2. `complete_join`: dynamic members that did not rejoin are removed. The others are the next generation, and
   get their answers. One of them is the leader. If only static members are left and none of them has
   rejoined, the group waits for another rebalance timeout.
3. `sync.py` stores the leader's assignment, and `assign` gives each member its part. Members that do not send
   SyncGroup within the rebalance timeout are removed (`_expire_sync`), and the group rebalances again.

`ClassicGroup.check` holds after each method. Source: Apache Kafka's GroupMetadataManager (its classicGroup
methods).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from kafkapy.coordination.timers import Timers
from kafkapy.groups.classic.group import ClassicGroup, GroupState
from kafkapy.groups.classic.member import Member
from kafkapy.groups.classic.sessions import Sessions
from kafkapy.groups.classic.store import GroupStore
from kafkapy.groups.config import GroupConfig
from kafkapy.logs.text import shortened
from kafkapy.loop.clock import Clock
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.sync_group import SyncGroupResponse

MIN_STATIC_WAIT_MS: Final = 100

logger = logging.getLogger(__name__)


class Rebalances:
    """Moves groups through their states."""

    def __init__(self, config: GroupConfig, clock: Clock, timers: Timers, store: GroupStore) -> None:
        self.config = config
        self.clock = clock
        self.timers = timers
        self.store = store
        self.sessions = Sessions(clock, timers, self._expire_session)

    # --- collecting members ---------------------------------------------------------------------------

    def rebalance_or_complete(self, group: ClassicGroup, reason: str) -> None:
        """Start a rebalance after a change of members or metadata.

        If the group is already collecting JoinGroup requests, complete that phase if nobody is missing.
        """
        if group.state is GroupState.PREPARING_REBALANCE:
            self.complete_join_if_ready(group)
        else:
            self.prepare(group, reason)

    def prepare(self, group: ClassicGroup, reason: str) -> None:
        """Start to collect JoinGroup requests for the next generation."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._end_sync(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        group.cancel_sync_timer()
        logger.info(
            "Group %s rebalances: %s (state %s, generation %d, %d members)",
            shortened(group.group_id),
            reason,
            group.state.value,
            group.generation,
            len(group.members),
        )
        initial = group.state is GroupState.EMPTY
        group.transition(GroupState.PREPARING_REBALANCE, self.clock.now_ms())
        if initial:
            delay = self.config.initial_rebalance_delay_ms
            self._arm_initial_delay(group, delay, max(group.rebalance_timeout_ms - delay, 0))
        elif group.has_all_joined():
            self.complete_join(group)
        else:
            self._arm_join_timer(group)

    def complete_join_if_ready(self, group: ClassicGroup) -> None:
        """Complete the join phase if nobody is missing and no initial delay is running."""
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and group.previous_state is not GroupState.EMPTY
            and group.has_all_joined()
        ):
            self.complete_join(group)

    def complete_join(self, group: ClassicGroup) -> None:
        """Begin the next generation with the members that have joined."""
        group.cancel_join_timer()
        missing = [
            member for member in group.members.values() if member.join_reply is None and not member.is_static
        ]
        for member in missing:
            group.remove(member)
        if missing:
            logger.info(
                "Group %s: %d members did not rejoin in time", shortened(group.group_id), len(missing)
            )
        if group.members and not group.elect_joined_leader():
            # Without a minimum, static members with a rebalance timeout of 0 would make this a busy loop.
            self._arm_join_timer(group, MIN_STATIC_WAIT_MS)
            return
        group.begin_generation(self.clock.now_ms())
        if group.state is GroupState.EMPTY:
            logger.info("Group %s is empty in generation %d", shortened(group.group_id), group.generation)
            self.store.store_group(group, {}, lambda error: _warn_of_unstored(group, error))
            return
        logger.info(
            "Group %s has generation %d: %d members, led by %s",
            shortened(group.group_id),
            group.generation,
            len(group.members),
            shortened(group.leader or ""),
        )
        group.pending_sync.update(group.members)
        group.sync_timer = self.timers.call_later(
            group.rebalance_timeout_ms / 1000, lambda: self._expire_sync(group)
        )
        for member in group.members.values():
            member.is_new = False
            group.answer_join(member, group.join_response(member))
            self.sessions.touch(group, member)

    def _arm_join_timer(self, group: ClassicGroup, at_least_ms: int = 0) -> None:
        timeout_ms = max(group.rebalance_timeout_ms, at_least_ms)
        group.join_timer = self.timers.call_later(timeout_ms / 1000, lambda: self.complete_join(group))

    def _arm_initial_delay(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        group.join_timer = self.timers.call_later(
            delay_ms / 1000, lambda: self._end_initial_delay(group, delay_ms, remaining_ms)
        )

    def _end_initial_delay(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        if group.new_member_added and remaining_ms:
            group.new_member_added = False
            next_delay_ms = min(self.config.initial_rebalance_delay_ms, remaining_ms)
            self._arm_initial_delay(group, next_delay_ms, max(remaining_ms - delay_ms, 0))
        else:
            self.complete_join(group)

    # --- handing out assignments ----------------------------------------------------------------------

    def assign(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
        """Make the group stable and answer its members, after the leader's assignment was stored."""
        group.transition(GroupState.STABLE, self.clock.now_ms())
        for member in group.members.values():
            group.set_assignment(member, assignments.get(member.member_id, b""))
            response = SyncGroupResponse(
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
                assignment=member.assignment,
            )
            self._answer_sync(group, member, response)

    def fail_assignment(self, group: ClassicGroup, error: ErrorCode) -> None:
        """Rebalance again because the leader's assignment could not be stored.

        Members that wait for it are answered with `error`.
        """
        self._end_sync(group, error)
        self.prepare(group, f"the assignment could not be stored: {error.name}")

    def received_sync(self, group: ClassicGroup, member: Member) -> None:
        """Note that a member of this generation has sent SyncGroup."""
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            group.cancel_sync_timer()

    def _end_sync(self, group: ClassicGroup, error: ErrorCode) -> None:
        for member in group.members.values():
            group.set_assignment(member, b"")
            self._answer_sync(group, member, SyncGroupResponse(error_code=error))

    def _answer_sync(self, group: ClassicGroup, member: Member, response: SyncGroupResponse) -> None:
        if member.answer_sync(response):
            self.sessions.touch(group, member)

    def _expire_sync(self, group: ClassicGroup) -> None:
        silent = [group.members[member_id] for member_id in sorted(group.pending_sync)]
        for member in silent:
            group.remove(member)
        self.prepare(group, f"{len(silent)} members did not ask for their assignment")

    # --- members that go ------------------------------------------------------------------------------

    def members_left(self, group: ClassicGroup, reason: str) -> None:
        """Rebalance after members were removed, unless the group is already rebalancing."""
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.prepare(group, reason)
        else:
            self.complete_join_if_ready(group)

    def add_pending(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Remember a new member id, with which the client must join within `timeout_ms`."""
        timer = self.timers.call_later(timeout_ms / 1000, lambda: self._expire_pending(group, member_id))
        group.add_pending(member_id, timer)

    def _expire_session(self, group: ClassicGroup, member: Member) -> None:
        who = shortened(member.member_id)
        logger.info("Group %s: nothing is heard of member %s", shortened(group.group_id), who)
        group.remove(member)
        self.members_left(group, f"the session of member {who} expired")

    def _expire_pending(self, group: ClassicGroup, member_id: str) -> None:
        group.forget_pending(member_id)
        self.complete_join_if_ready(group)


def _warn_of_unstored(group: ClassicGroup, error: ErrorCode) -> None:
    if error is not ErrorCode.NONE:
        logger.warning(
            "Group %s is empty, which could not be stored: %s", shortened(group.group_id), error.name
        )
