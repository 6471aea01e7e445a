"""A classic group: its members, their protocol, and the rules for both.

    Empty ──► PreparingRebalance ──► CompletingRebalance ──► Stable
      ▲            │    ▲  ▲                  │                 │
      └────────────┘    │  └──────────────────┘                 │
                        └───────────────────────────────────────┘        any state ──► Dead

Empty: no members, at most offsets. PreparingRebalance: members are being collected, JoinGroup requests
wait. CompletingRebalance: a generation exists, its leader computes the assignment, SyncGroup requests
wait. Stable: every member has its assignment. Dead: deleted or unloaded; nothing refers to it any more.

A pending member has been assigned an id (MEMBER_ID_REQUIRED, KIP-394) and has not joined with it yet. A
static member keeps its place by its group.instance.id while its member id changes (KIP-345).

This module does no I/O and has no clock. `check()` asserts the invariants between any two events. Source:
Apache Kafka's ClassicGroup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import Enum
from typing import Final

from kafkapy.coordination.timers import Cancellable
from kafkapy.groups.classic.member import PENDING_BYTES, JoinReply, Member, Protocols
from kafkapy.groups.classic.records import encode_group_key
from kafkapy.groups.classic.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from kafkapy.groups.group import Group, GroupType
from kafkapy.groups.member_total import text_bytes
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kafkapy.protocol.messages.sync_group import SyncGroupResponse


class GroupState(Enum):
    """Kafka's names, as DescribeGroups and ListGroups show them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_EMPTY: Final = GroupState.EMPTY
_COMPLETING_REBALANCE: Final = GroupState.COMPLETING_REBALANCE
"""For every commit (see `kafkapy.protocol.errors.NONE`)."""

_PREVIOUS = {
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE},
    GroupState.PREPARING_REBALANCE: {
        GroupState.EMPTY,
        GroupState.COMPLETING_REBALANCE,
        GroupState.STABLE,
    },
    GroupState.COMPLETING_REBALANCE: {GroupState.PREPARING_REBALANCE},
    GroupState.STABLE: {GroupState.COMPLETING_REBALANCE},
    GroupState.DEAD: set(GroupState),
}


class ClassicGroup(Group):
    """One classic group."""

    type = GroupType.CLASSIC

    def __init__(self, group_id: str, now_ms: int) -> None:
        super().__init__(group_id)
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.state_timestamp: int = now_ms
        """The wall clock time at which the group entered its state; -1 if the record on disk has none."""
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Member id by group.instance.id."""
        self.pending: dict[str, Cancellable] = {}
        """The ids of pending members, each with the timer of its expiry."""
        self.pending_sync: set[str] = set()
        """The members of this generation that have not sent SyncGroup yet."""
        self.storing_generation = -1
        """The generation whose assignment is being stored."""
        self.awaiting_join = 0
        """The number of members that wait in JoinGroup."""
        self.subscribed: frozenset[str] | None = None
        """The topics to which members of this generation subscribe; None if they are not known."""
        self.new_member_added = False
        """Whether a member joined during the initial delay, which may then be extended."""
        self.join_timer: Cancellable | None = None
        self.sync_timer: Cancellable | None = None
        self._support: Counter[str] = Counter()
        """How many members support a protocol."""

    # --- members --------------------------------------------------------------------------------------

    def add(self, member: Member, reply: JoinReply | None = None) -> None:
        """Add a member.

        It waits in JoinGroup if `reply` is given. The first one leads.
        """
        if not self.members:
            self.protocol_type = member.protocol_type
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)
        self.forget_pending(member.member_id)
        if reply is not None:
            self.await_join(member, reply)

    def remove(self, member: Member, error: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID) -> None:
        """Remove a member.

        If it was the leader, the oldest of the others becomes leader. If it waits, it is answered with
        `error`, and a living client joins again.
        """
        del self.members[member.member_id]
        self._count(member, -1)
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)
        self.pending_sync.discard(member.member_id)
        member.end_session()
        self.answer_join(member, JoinGroupResponse(error_code=error))
        member.answer_sync(SyncGroupResponse(error_code=error))

    def replace_static(self, old: Member, member_id: str) -> Member:
        """Give a static member a new member id.

        Requests with the old one are fenced.
        """
        new = Member(
            member_id=member_id,
            group_instance_id=old.group_instance_id,
            client_id=old.client_id,
            client_host=old.client_host,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            session_timeout_ms=old.session_timeout_ms,
            protocol_type=old.protocol_type,
            protocols=old.protocols,
            assignment=old.assignment,
        )
        assert old.group_instance_id is not None
        self.memory.add(new.nbytes - old.nbytes)
        # The place in the order of members is kept: it decides which one leads next.
        self.members = {
            (member_id if key == old.member_id else key): (new if member is old else member)
            for key, member in self.members.items()
        }
        self.static_members[old.group_instance_id] = member_id
        if self.leader == old.member_id:
            self.leader = member_id
        if old.member_id in self.pending_sync:
            self.pending_sync.remove(old.member_id)
            self.pending_sync.add(member_id)
        old.end_session()
        self.answer_join(
            old, JoinGroupResponse(member_id=old.member_id, error_code=ErrorCode.FENCED_INSTANCE_ID)
        )
        old.answer_sync(SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        return new

    def update(
        self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        """Update a member from its new JoinGroup."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def await_join(self, member: Member, reply: JoinReply) -> None:
        """Let the member wait for the next generation."""
        superseded, member.join_reply = member.join_reply, reply
        if superseded is None:
            self.awaiting_join += 1
        else:
            superseded(
                JoinGroupResponse(member_id=member.member_id, error_code=ErrorCode.REBALANCE_IN_PROGRESS)
            )

    def answer_join(self, member: Member, response: JoinGroupResponse) -> None:
        """Answer a waiting JoinGroup, if there is one."""
        reply, member.join_reply = member.join_reply, None
        if reply is not None:
            self.awaiting_join -= 1
            reply(response)

    def set_assignment(self, member: Member, assignment: bytes) -> None:
        """Give a member the assignment that the leader made for it."""
        before = member.nbytes
        member.assignment = assignment
        self.memory.add(member.nbytes - before)

    def add_pending(self, member_id: str, timer: Cancellable) -> None:
        """Remember a member id that was handed out; the timer ends that."""
        self.pending[member_id] = timer
        self.memory.add(_pending_bytes(member_id))

    def forget_pending(self, member_id: str) -> bool:
        """Remove a pending member; return whether there was one with this id."""
        timer = self.pending.pop(member_id, None)
        if timer is None:
            return False
        timer.cancel()
        self.memory.add(-_pending_bytes(member_id))
        return True

    def cancel_join_timer(self) -> None:
        """Wait no longer for members to join."""
        if self.join_timer is not None:
            self.join_timer.cancel()
            self.join_timer = None

    def cancel_sync_timer(self) -> None:
        """Wait no longer for members to ask for their assignment."""
        if self.sync_timer is not None:
            self.sync_timer.cancel()
            self.sync_timer = None

    def _count(self, member: Member, by: int) -> None:
        self.memory.add(by * member.nbytes)
        for name, _ in member.protocols:
            self._support[name] += by
            if not self._support[name]:
                del self._support[name]

    # --- common properties of the members -------------------------------------------------------------

    def supports(self, protocol_type: str, names: list[str]) -> bool:
        """Whether a member with these protocols can join the others."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and names)
        count = len(self.members)
        return protocol_type == self.protocol_type and any(self._support[name] == count for name in names)

    @property
    def has_common_protocol(self) -> bool:
        """Whether there is a protocol that all members support."""
        return len(self.members) in self._support.values()

    def select_protocol(self) -> str:
        """The protocol all members support that most of them prefer."""
        count = len(self.members)
        candidates = {name for name, supporters in self._support.items() if supporters == count}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def has_all_joined(self) -> bool:
        """Whether every member waits in JoinGroup, and no member is pending."""
        return self.awaiting_join == len(self.members) and not self.pending

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader waits in JoinGroup; False if no member waits."""
        if self.leader is None:
            return False
        if self.members[self.leader].join_reply is None:
            joined = (key for key, member in self.members.items() if member.join_reply is not None)
            leader = next(joined, None)
            if leader is None:
                return False
            self.leader = leader
        return True

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout that a member asked for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def transition(self, state: GroupState, now_ms: int) -> None:
        """Enter `state`."""
        assert self.state in _PREVIOUS[state], f"{self.group_id}: {self.state} to {state}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp = now_ms

    def begin_generation(self, now_ms: int) -> None:
        """Begin the next generation with the present members."""
        self.generation += 1
        self.pending_sync.clear()
        self.new_member_added = False
        self.protocol_name = self.select_protocol() if self.members else None
        self.compute_subscription()
        self.transition(
            GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY,
            now_ms,
        )

    def compute_subscription(self) -> None:
        """Read which topics the members subscribe to, where they speak the consumer protocol."""
        self.subscribed = None
        if self.protocol_type == CONSUMER_PROTOCOL_TYPE and (self.protocol_name or not self.members):
            self.subscribed = subscribed_topics(
                member.metadata(self.protocol_name) for member in self.members.values()
            )

    # --- rules for requests ---------------------------------------------------------------------------

    def require_member(self, member_id: str, group_instance_id: str | None) -> Member:
        """The member a request speaks for.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID where another member id took its place.
        """
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if current != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def require_generation(self, generation: int) -> None:
        """Raises KafkaError ILLEGAL_GENERATION unless this is the current one."""
        if generation != self.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    # --- the interface of any group -------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        """The state's name, as tools show it."""
        return self.state.value

    @property
    def is_abandoned(self) -> bool:
        """Whether the group has neither members nor pending members."""
        return self.state is GroupState.EMPTY and not self.pending

    def bytes_of_member(self, member_id: str) -> int:
        """The part of `memory` that one member takes."""
        member = self.members.get(member_id)
        return 0 if member is None else member.nbytes

    def validate_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        version: int | None = None,
        *,
        in_transaction: bool = False,
    ) -> None:
        """Check that a member may commit offsets, or a consumer that assigns partitions to itself.

        A transaction may commit offsets without naming a member, as its versions before 3 do, and while its
        member waits for an assignment.

        Raises:
            KafkaError: the commit is refused.
        """
        if generation < 0 and self.state is _EMPTY:
            return
        if generation < 0 and not member_id and group_instance_id is None:
            if in_transaction:
                return
            # While the group has members, only they commit.
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        self.require_member(member_id, group_instance_id)
        self.require_generation(generation)
        if self.state is _COMPLETING_REBALANCE and not in_transaction:
            # The member knows the new generation from JoinGroup, but not its assignment in it.
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Accept any: members of classic groups do not name themselves."""

    def validate_offset_delete(self) -> None:
        """Raise KafkaError NON_EMPTY_GROUP if the members' subscriptions are not known."""
        if self.state is not GroupState.EMPTY and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def validate_delete(self) -> None:
        """Raise KafkaError NON_EMPTY_GROUP if the group has members."""
        if self.state is not GroupState.EMPTY:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member may be reading the topic; where that is not known, any consumer may."""
        if self.subscribed is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed

    def retention_start(self, commit_timestamp: int) -> int | None:
        """When the retention of a commit begins; None where the commit does not expire.

        It begins when the group became empty. It begins with the commit itself in a group that only stores
        offsets, and for topics to which a stable group of consumers may have ceased to subscribe.
        """
        if self.protocol_type is None:
            return commit_timestamp
        if self.state is GroupState.EMPTY:
            return self.state_timestamp if self.state_timestamp >= 0 else commit_timestamp
        if self.state is GroupState.STABLE and self.subscribed is not None:
            return commit_timestamp
        return None

    def tombstone_keys(self) -> Sequence[bytes]:
        """The key of its metadata."""
        return (encode_group_key(self.group_id),)

    def close(self, error: ErrorCode, now_ms: int) -> None:
        """Answer waiting members with `error`, and keep no timer.

        The group is deleted or unloaded.
        """
        self.cancel_join_timer()
        self.cancel_sync_timer()
        for member_id in tuple(self.pending):
            self.forget_pending(member_id)
        for member in tuple(self.members.values()):
            self.remove(member, error)
        self.pending_sync.clear()
        self.transition(GroupState.DEAD, now_ms)

    # --- answers --------------------------------------------------------------------------------------

    def join_response(self, member: Member) -> JoinGroupResponse:
        """The JoinGroup response of a member.

        The leader's also lists the other members.
        """
        members = []
        if self.leader == member.member_id:
            members = [
                JoinGroupResponseMember(
                    member_id=other.member_id,
                    group_instance_id=other.group_instance_id,
                    metadata=other.metadata(self.protocol_name),
                )
                for other in self.members.values()
            ]
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader or "",
            member_id=member.member_id,
            members=members,
        )

    # --- invariants -----------------------------------------------------------------------------------

    def check(self) -> None:
        """Assert the invariants that hold between any two events."""
        members = self.members
        state = self.state
        assert (self.leader in members) if members else self.leader is None, "one leader, a member"
        assert all(key == member.member_id for key, member in members.items())
        assert self.static_members == {
            member.group_instance_id: key for key, member in members.items() if member.group_instance_id
        }
        assert not members.keys() & self.pending.keys(), "a member is not pending"
        assert self.pending_sync <= members.keys()
        assert self.awaiting_join == sum(member.join_reply is not None for member in members.values())
        assert self.memory.nbytes == sum(each.nbytes for each in members.values()) + sum(
            map(_pending_bytes, self.pending)
        )
        assert self._support == Counter(name for m in members.values() for name, _ in m.protocols)
        assert all(member.protocol_type == self.protocol_type for member in members.values())
        if state in (GroupState.EMPTY, GroupState.DEAD):
            assert not members, "an empty group has no members"
        if state is GroupState.PREPARING_REBALANCE:
            assert self.join_timer is not None, "a rebalance ends"
        else:
            assert self.join_timer is None
        if state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            assert not self.pending_sync
        assert bool(self.pending_sync) == (self.sync_timer is not None), "a missing SyncGroup is noticed"
        for member in members.values():
            if state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
                member.metadata(self.protocol_name)
            if member.sync_reply is not None:
                assert state is GroupState.COMPLETING_REBALANCE, "assignments are sent when there are any"
            if member.join_reply is not None:
                # In Stable: a static member's new id is being stored.
                assert state is GroupState.PREPARING_REBALANCE or (
                    state is GroupState.STABLE and member.is_static
                )
            assert member.session_timer is not None or member.is_waiting, "a silent member is noticed"


def _pending_bytes(member_id: str) -> int:
    return PENDING_BYTES + text_bytes(member_id)
