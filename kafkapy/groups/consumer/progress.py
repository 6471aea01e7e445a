"""The steps that events of consumer groups share: epochs, targets, reconciliation.

The group epoch rises when members, subscriptions or topics change. A target assignment is computed for it,
but no sooner than consumer.assignment.interval.ms after the last one, so that members that come together
cause one rebalance. A heartbeat after that time does it. A target that takes long, or that an assignor of the
operator computes, is computed in a worker thread. Until it is there, members follow the last one.

Source: Apache Kafka's GroupMetadataManager (updateSubscriptionMetadata, updateTargetAssignment,
maybeReconcile), KIP-1263.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from kafkapy.assignors import Assignor, AssignorError
from kafkapy.groups.consumer import records
from kafkapy.groups.consumer.group import ConsumerGroup, Transition
from kafkapy.groups.consumer.member import ConsumerMember
from kafkapy.groups.consumer.reconciliation import Reconciliation
from kafkapy.groups.consumer.records import Target
from kafkapy.groups.consumer.target import TargetRequest, target_request
from kafkapy.groups.modern.deadlines import Deadlines
from kafkapy.groups.modern.heartbeats import METADATA_REFRESH_MS
from kafkapy.groups.modern.settings import ASSIGNMENT_INTERVAL, GroupSettings
from kafkapy.groups.modern.subscriptions import NO_TOPICS
from kafkapy.groups.modern.target_computations import ComputedTarget, TargetComputations
from kafkapy.groups.modern.timeouts import Timeout
from kafkapy.groups.modern.topics import TopicsView
from kafkapy.logs.text import shortened
from kafkapy.loop.clock import Clock
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.consumer_group_heartbeat import TopicPartitions
from kafkapy.protocol.types import Uuid

logger = logging.getLogger(__name__)


class Progress:
    """Moves consumer groups from epoch to epoch."""

    def __init__(
        self,
        settings: GroupSettings,
        clock: Clock,
        assignors: Mapping[str, Assignor],
        *,
        deadlines: Deadlines[ConsumerGroup],
        computations: TargetComputations[ConsumerGroup, TargetRequest],
    ) -> None:
        """`computations` computes large targets, and calls `assign` with them."""
        self.settings = settings
        self.clock = clock
        self.assignors = assignors
        self.topics: TopicsView
        self.deadlines = deadlines
        self._computations = computations

    # --- epochs ---------------------------------------------------------------------------------------

    def update_epoch(self, transition: Transition, *, bump: bool) -> None:
        """Raise the group epoch if `bump`, or if the subscribed topics have changed."""
        group, now = transition.group, self.clock.now_ms()
        if not bump and now < group.refresh_deadline_ms:
            return
        found = group.existing.hash(self.topics)
        deadline = group.refresh_deadline_ms
        if bump or found != group.metadata_hash:
            transition.apply(records.group_epoch(group.group_id, group.epoch + 1, found))
            logger.info("Group %s has epoch %d", shortened(group.group_id), group.epoch)
        group.refresh_deadline_ms = now + METADATA_REFRESH_MS
        if group.partition_metadata is not None:
            transition.apply(records.partition_metadata_gone(group.group_id))
        transition.on_undo(lambda: setattr(group, "refresh_deadline_ms", deadline))

    def update_target(self, transition: Transition) -> None:
        """Compute the target assignment of the group epoch, if it is time to.

        Raises:
            KafkaError: there is none.
        """
        group, now = transition.group, self.clock.now_ms()
        if group.epoch <= group.assignment_epoch or self._computations.is_running(group):
            return
        interval = self.settings.of(group.group_id, ASSIGNMENT_INTERVAL)
        if group.assignment_timestamp <= now < group.assignment_timestamp + interval:
            return
        request = target_request(group, self.topics, self.assignors)
        if not request.is_quick:
            transition.afterwards(lambda: self._computations.begin(group, request))
            return
        try:
            target = request.compute()
        except AssignorError as error:
            message = f"Failed to compute a new target assignment for epoch {request.epoch}: {error}"
            logger.error("Group %s: %s", shortened(group.group_id), message)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message) from None
        self.assign(transition, request, target)

    def assign(self, transition: Transition, request: TargetRequest, target: ComputedTarget[Target]) -> None:
        """Make this the group's target assignment."""
        group = transition.group
        transition.apply_targets(target.changes)
        transition.apply(records.assignment_epoch(group.group_id, request.epoch, self.clock.now_ms()))

    # --- members --------------------------------------------------------------------------------------

    def reconcile(
        self,
        transition: Transition,
        member_id: str,
        owned: Sequence[TopicPartitions] | None,
        *,
        subscription_changed: bool,
    ) -> ConsumerMember:
        """Move a member towards its target assignment; return the member as it is then."""
        group = transition.group
        member = group.members[member_id]
        if not subscription_changed and member.is_reconciled_to(group.assignment_epoch):
            return member
        updated = Reconciliation(
            member,
            target_epoch=group.assignment_epoch,
            target=group.target(member_id),
            is_subscribed=self._subscription_of(group, member),
            owners=group.owners,
            owned=owned,
        ).next(subscription_changed=subscription_changed)
        if updated == member:
            return member
        group.change_member(
            transition, member_id, updated, records.encoded_current_assignment(group.group_id, updated)
        )
        if updated.classic is None:
            if updated.is_revoking:
                transition.afterwards(lambda: self.deadlines.expect_revocation(group, member_id))
            else:
                transition.afterwards(lambda: group.timers.cancel(member_id, Timeout.REBALANCE))
        return updated

    def _subscription_of(self, group: ConsumerGroup, member: ConsumerMember) -> Callable[[Uuid], bool]:
        """Whether the member subscribes to a topic, which need not exist."""
        by_id, names = self.topics.image.topics_by_id, member.topic_names
        if not member.topic_regex:
            return group.subscribed_ids(names, self.topics).__contains__
        resolved = group.regexes.get(member.topic_regex)
        matches = NO_TOPICS if resolved is None else resolved.topics

        def is_subscribed(topic_id: Uuid) -> bool:
            topic = by_id.get(topic_id)
            return topic is not None and (topic.name in names or topic.name in matches)

        return is_subscribed

    # --- deadlines ------------------------------------------------------------------------------------

    def expect_heartbeat(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Expect a member's next heartbeat within its session timeout."""
        if member.classic is None:
            self.deadlines.expect_heartbeat(group, member.member_id)
        else:
            ms = member.classic.session_timeout_ms
            self.deadlines.expect(group, member.member_id, Timeout.SESSION, ms)
