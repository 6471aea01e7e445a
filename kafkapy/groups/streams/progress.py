"""What the events of a streams group have in common: topics, epochs, targets, deadlines.

The group epoch rises when members, topics or settings of the assignment change. A target assignment is
computed for it, but no sooner than streams.assignment.interval.ms after the last one. The first one of a
group without members waits for streams.initial.rebalance.delay.ms, so that members that come together cause
one rebalance. A target that takes long is computed in a worker thread. Until it is there, members follow the
last one.

Source: Apache Kafka's GroupMetadataManager (maybeUpdateStreamsTargetAssignment, streamsGroupFenceMember).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from kafkapy.coordination.timers import Timers
from kafkapy.groups.modern.group import NO_EPOCH
from kafkapy.groups.modern.settings import ASSIGNMENT_INTERVAL, SESSION_TIMEOUT, GroupSettings
from kafkapy.groups.modern.target_computations import ComputedTarget, TargetComputations
from kafkapy.groups.modern.timeouts import Timeout
from kafkapy.groups.modern.topics import TopicsView
from kafkapy.groups.streams import records
from kafkapy.groups.streams.configured_topology import ConfiguredTopology, configure
from kafkapy.groups.streams.group import StreamsGroup
from kafkapy.groups.streams.member import MemberState, StreamsMember
from kafkapy.groups.streams.reconciliation import Reconciliation
from kafkapy.groups.streams.target import (
    NUM_STANDBY_REPLICAS,
    TargetRequest,
    target_request,
)
from kafkapy.groups.streams.tasks import TaskSet
from kafkapy.groups.streams.topology import Topology
from kafkapy.groups.streams.transition import Transition
from kafkapy.logs.text import shortened
from kafkapy.loop.clock import Clock

logger = logging.getLogger(__name__)

DELAYED_BY_FIRST = "Assignment delayed due to the configured initial rebalance delay."
DELAYED_BY_INTERVAL = "Assignment delayed due to the configured assignment interval."
DELAYED_BY_SIZE = "Assignment delayed until it is computed."


class Progress:
    """Moves streams groups from epoch to epoch."""

    def __init__(
        self,
        settings: GroupSettings,
        clock: Clock,
        timers: Timers,
        topics: TopicsView,
        *,
        expired: Callable[[StreamsGroup, str, Timeout], object],
        first_assignment: Callable[[StreamsGroup], object],
        computations: TargetComputations[StreamsGroup, TargetRequest],
    ) -> None:
        """What the outside does.

        `expired` is called when a member is late with something, and `first_assignment` when the initial
        rebalance delay of a group is over. `computations` computes large targets, and calls `assign` with
        them.
        """
        self.settings = settings
        self.clock = clock
        self.topics = topics
        self._timers = timers
        self._expired = expired
        self._first_assignment = first_assignment
        self._computations = computations

    # --- settings and topics --------------------------------------------------------------------------

    def assignment_settings(self, group_id: str) -> Mapping[str, str]:
        """The settings by which targets are computed now."""
        return {NUM_STANDBY_REPLICAS: str(self.settings.of(group_id, NUM_STANDBY_REPLICAS))}

    def partition_count(self, topic: str) -> int | None:
        """The number of partitions of a topic; None if it does not exist."""
        found = self.topics.image.topics.get(topic)
        return None if found is None else len(found.partitions)

    # --- epochs ---------------------------------------------------------------------------------------

    def update_topics(self, transition: Transition, topology: Topology) -> tuple[ConfiguredTopology, int]:
        """What the topology takes now, and the hash of its topics.

        Raises:
            KafkaError: STREAMS_INVALID_TOPOLOGY.
        """
        group = transition.group
        configured, metadata_hash = group.configured, group.metadata_hash
        if configured is None or group.must_look_at_topics:
            metadata_hash = self.topics.hash(topology.required_topics)
            if configured is None or metadata_hash != group.metadata_hash:
                configured = group.configured = configure(topology, self.partition_count)
                problem = configured.problem
                logger.info(
                    "Group %s: %s",
                    shortened(group.group_id),
                    "its topics are there" if problem is None else shortened(problem.detail),
                )
            group.must_look_at_topics = False
            transition.on_undo(lambda: setattr(group, "must_look_at_topics", True))
        return configured, metadata_hash

    def update_epoch(
        self, transition: Transition, configured: ConfiguredTopology, metadata_hash: int, *, bump: bool
    ) -> None:
        """Raise the group epoch if `bump`, or if topics or settings have changed."""
        group = transition.group
        validated = configured.topology.epoch if configured.is_ready else NO_EPOCH
        settings = self.assignment_settings(group.group_id)
        if (
            bump
            or metadata_hash != group.metadata_hash
            or validated != group.validated_topology
            or settings != group.assignment_settings
        ):
            transition.apply(
                records.group_epoch(group.group_id, group.epoch + 1, metadata_hash, validated, settings)
            )
            logger.info("Group %s has epoch %d", shortened(group.group_id), group.epoch)

    def delay_first_assignment(self, transition: Transition) -> bool:
        """Let a group that had no members wait for more, if it is to.

        Return whether it does.
        """
        group = transition.group
        if group.first_assignment is not None:
            return True
        delay_ms = self.settings.of(group.group_id, "initial.rebalance.delay.ms")
        if not delay_ms:
            return False

        def over() -> None:
            group.first_assignment = None
            self._first_assignment(group)

        def start() -> None:
            group.first_assignment = self._timers.call_later(delay_ms / 1000, over)

        transition.afterwards(start)
        return True

    def update_target(self, transition: Transition, configured: ConfiguredTopology) -> str | None:
        """Compute the target assignment of the group epoch, if it is time to.

        Return why it is delayed, or None.
        """
        group, now = transition.group, self.clock.now_ms()
        if group.epoch <= group.assignment_epoch:
            return None
        interval = self.settings.of(group.group_id, ASSIGNMENT_INTERVAL)
        if group.assignment_timestamp <= now < group.assignment_timestamp + interval:
            return DELAYED_BY_INTERVAL
        if self._computations.is_running(group):
            return DELAYED_BY_SIZE
        request = target_request(group, configured)
        if not request.is_quick:
            transition.afterwards(lambda: self._computations.begin(group, request))
            return DELAYED_BY_SIZE
        self.assign(transition, request, request.compute())
        return None

    def assign(self, transition: Transition, request: TargetRequest, target: ComputedTarget[TaskSet]) -> None:
        """Make this the group's target assignment."""
        group = transition.group
        assigned = sum(
            map(len, (each for tasks in target.targets.values() for each in tasks.standby.values()))
        )
        if assigned < request.num_standby_tasks:
            logger.warning(
                "Group %s: %d of %d standby tasks are assigned to nobody: "
                "the application has too few processes",
                shortened(group.group_id),
                request.num_standby_tasks - assigned,
                request.num_standby_tasks,
            )
        transition.apply_targets(target.changes)
        transition.apply(records.assignment_epoch(group.group_id, request.epoch, self.clock.now_ms()))

    # --- members --------------------------------------------------------------------------------------

    def reconcile(self, transition: Transition, member_id: str, owned: TaskSet | None) -> StreamsMember:
        """Move a member towards its target assignment; return the member as it is then.

        Raises:
            KafkaError: FENCED_MEMBER_EPOCH.
        """
        group = transition.group
        member = group.members[member_id]
        updated = Reconciliation(
            group, member, target_epoch=group.assignment_epoch, target=group.target(member_id), owned=owned
        ).next()
        if updated == member:
            return member
        transition.apply(records.current_assignment(group.group_id, updated))
        if updated.state is MemberState.UNREVOKED_TASKS:
            transition.afterwards(lambda: self.expect_revocation(group, updated))
        else:
            transition.afterwards(lambda: group.timers.cancel(member_id, Timeout.REBALANCE))
        return updated

    def remove_member(self, transition: Transition, member_id: str) -> None:
        """Remove a member.

        Its tasks are free at once.

        The others learn that its endpoint is gone (Apache Kafka tells them with the next change of tasks).
        """
        group = transition.group
        if group.members[member_id].endpoint is not None:
            group.endpoints.epoch += 1
        transition.apply_all(records.member_gone(group.group_id, member_id))
        transition.apply(
            records.group_epoch(
                group.group_id,
                group.epoch + 1,
                group.metadata_hash,
                group.validated_topology,
                settings=group.assignment_settings,
            )
        )
        transition.afterwards(lambda: group.timers.cancel_member(member_id))

    # --- deadlines ------------------------------------------------------------------------------------

    def expect_heartbeat(self, group: StreamsGroup, member_id: str) -> None:
        """Expect a member's next heartbeat within its session timeout."""
        self._expect(group, member_id, Timeout.SESSION, self.settings.of(group.group_id, SESSION_TIMEOUT))

    def expect_revocation(self, group: StreamsGroup, member: StreamsMember) -> None:
        """Expect that a member gives up its tasks within its rebalance timeout."""
        self._expect(group, member.member_id, Timeout.REBALANCE, member.rebalance_timeout_ms)

    def _expect(self, group: StreamsGroup, member_id: str, timeout: Timeout, ms: int) -> None:
        group.timers.set(
            member_id,
            timeout,
            ms,
            lambda: self._expired(group, member_id, timeout),
            clock=self.clock,
            timers=self._timers,
        )
