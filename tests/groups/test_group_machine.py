"""Any order of events leaves a group's invariants true.

Every request is answered exactly once.

Hypothesis makes up the events and shrinks a failure to a short story; `World` checks the invariants
after each.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kafkapy.groups.classic.group import GroupState
from kafkapy.groups.classic.records import decode_group_value
from kafkapy.groups.config import GroupConfig
from kafkapy.protocol.errors import ErrorCode
from tests.groups.group_world import RANGE, Replies, World, subscription

PROTOCOLS = [
    RANGE,
    (("range", subscription("t", "u")),),
    (("sticky", b""), *RANGE),
    (*RANGE, ("sticky", b"")),
]
ANSWERS_TO_JOIN = {
    ErrorCode.NONE,
    ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}

protocols = st.sampled_from(PROTOCOLS)
versions = st.sampled_from([0, 3, 4, 5, 8, 9])
sessions = st.sampled_from([6_000, 10_000, 45_000])
timeouts = st.sampled_from([0, 1, 5_000, 60_000])
instances = st.sampled_from(["i", "j", "k"])


class GroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(GroupConfig(max_size=4, initial_rebalance_delay_ms=1_000))
        self.requests: list[Replies] = []
        self.known: list[tuple[str, str | None]] = []
        """Ids that clients have seen, with their group.instance.id."""
        self.generation = 0

    def track(self, replies: Replies, instance: str | None = None) -> None:
        self.requests.append(replies)
        joined = replies.joined
        if joined is not None and joined.member_id:
            self.known.append((joined.member_id, instance))

    @rule(
        protocols=protocols,
        version=versions,
        session_ms=sessions,
        rebalance_ms=timeouts,
        instance=st.none() | instances,
    )
    def somebody_joins(
        self,
        protocols: tuple[tuple[str, bytes], ...],
        version: int,
        session_ms: int,
        rebalance_ms: int,
        instance: str | None,
    ) -> None:
        replies = self.world.join(
            protocols=protocols,
            version=version,
            session_ms=session_ms,
            rebalance_ms=rebalance_ms,
            instance=instance,
        )
        self.track(replies, instance)
        self.known.extend((key, member.group_instance_id) for key, member in self.world.group.members.items())

    @rule(session_ms=st.lists(sessions, min_size=2, max_size=4), instance=st.none() | instances)
    def several_join_at_once(self, session_ms: list[int], instance: str | None) -> None:
        """The common beginning of a longer story."""
        for each in session_ms:
            self.somebody_joins(RANGE, 3, each, 60_000, instance)
            instance = None
        self.world.settle()

    @precondition(lambda self: self.world.group.state is GroupState.COMPLETING_REBALANCE)
    @rule(leader_too=st.booleans())
    def those_who_follow_sync(self, leader_too: bool) -> None:
        group = self.world.group
        ids = [member_id for member_id in group.members if member_id != group.leader]
        if leader_too and group.leader is not None:
            ids.append(group.leader)
        for member_id in ids:
            if group.state is GroupState.COMPLETING_REBALANCE:
                self.track(self.world.sync(member_id, assignments={key: key.encode() for key in ids}))

    @precondition(lambda self: self.known)
    @rule(data=st.data(), protocols=protocols, rebalance_ms=timeouts)
    def somebody_known_joins(
        self, data: st.DataObject, protocols: tuple[tuple[str, bytes], ...], rebalance_ms: int
    ) -> None:
        member_id, instance = data.draw(st.sampled_from(self.known))
        self.track(
            self.world.join(member_id, instance=instance, protocols=protocols, rebalance_ms=rebalance_ms)
        )

    @precondition(lambda self: self.world.group.pending)
    @rule()
    def a_pending_member_comes_back(self) -> None:
        self.track(self.world.join(next(iter(self.world.group.pending))))

    @precondition(lambda self: self.world.group.state is GroupState.PREPARING_REBALANCE)
    @rule()
    def everybody_rejoins(self) -> None:
        for member in tuple(self.world.group.members.values()):
            if member.join_reply is None and member.member_id in self.world.group.members:
                self.track(
                    self.world.join(
                        member.member_id, instance=member.group_instance_id, protocols=member.protocols
                    )
                )

    @precondition(lambda self: self.known)
    @rule(data=st.data(), off=st.sampled_from([0, 0, 0, 1]))
    def somebody_syncs(self, data: st.DataObject, off: int) -> None:
        member_id, instance = data.draw(st.sampled_from(self.known))
        group = self.world.group
        given = data.draw(st.sets(st.sampled_from(sorted(group.members)))) if group.members else set()
        self.track(
            self.world.sync(
                member_id,
                instance=instance,
                generation=group.generation - off,
                assignments={key: key.encode() for key in given},
            )
        )

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def somebody_sends_a_heartbeat(self, data: st.DataObject) -> None:
        member_id, instance = data.draw(st.sampled_from(self.known))
        self.world.heartbeat(member_id, instance=instance)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), by_instance=st.booleans())
    def somebody_leaves(self, data: st.DataObject, by_instance: bool) -> None:
        member_id, instance = data.draw(st.sampled_from(self.known))
        if instance is None:
            self.world.leave(member_id)
        else:
            self.world.leave(("" if by_instance else member_id, instance))

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 3.0, 5.0, 7.0, 11.0, 50.0, 400.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.advance(seconds)

    @rule(hold=st.booleans())
    def the_log_is_slow_or_not(self, hold: bool) -> None:
        if not self.world.store.held:
            self.world.store.hold = hold

    @rule(error=st.sampled_from([ErrorCode.NONE, ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE]))
    def writes_end_so(self, error: ErrorCode) -> None:
        if self.world.store.held:
            self.world.release(error)
        else:
            self.world.store.error = error

    @precondition(lambda self: self.world.store.written and not self.world.store.held)
    @rule()
    def the_coordinator_restarts(self) -> None:
        self.world.restart()
        self.generation = self.world.group.generation

    @invariant()
    def the_generation_only_rises(self) -> None:
        assert self.world.group.generation >= self.generation
        self.generation = self.world.group.generation

    @invariant()
    def answers_are_ones_that_clients_know(self) -> None:
        for replies in self.requests:
            if replies.joined is not None:
                assert replies.error in ANSWERS_TO_JOIN
        self.requests = [replies for replies in self.requests if replies.error is None]

    @invariant()
    def a_stable_groups_members_have_what_was_stored(self) -> None:
        group, store = self.world.group, self.world.store
        if group.state is GroupState.STABLE and not store.held and store.error is ErrorCode.NONE:
            stored = decode_group_value(store.written[-1][1])
            if stored.generation == group.generation and stored.members:
                by_id = {each.member_id: bytes(each.assignment) for each in stored.members}
                for key, member in group.members.items():
                    assert by_id.get(key, member.assignment) == member.assignment

    def teardown(self) -> None:
        """Left alone, everybody's time runs out and nothing is left behind."""
        world = self.world
        while world.store.held:
            world.release()
        world.store.hold = False
        world.advance(2_000)
        assert world.group.state is GroupState.EMPTY
        assert not world.group.pending
        assert world.timers.pending == 0
        assert all(replies.error is not None for replies in self.requests), "no request is left hanging"


GroupMachine.TestCase.settings = settings(
    max_examples=200,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow],
)
test_any_order_of_events = GroupMachine.TestCase
