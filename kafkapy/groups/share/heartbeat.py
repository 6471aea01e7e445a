"""ShareGroupHeartbeat: members join, get their partitions, and leave.

The group epoch rises when subscriptions or topics change, and when a partition was initialized that nobody
has. A target assignment is computed for it, but no sooner than share.assignment.interval.ms after the last
one. A target that takes long is computed in a worker thread; until it is there, members follow the last one.
A member takes its target with its next heartbeat: it need not wait for others.

Source: Apache Kafka's GroupMetadataManager (shareGroupHeartbeat).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from kafkapy.groups.modern.deadlines import Deadlines
from kafkapy.groups.modern.heartbeats import JOIN_EPOCH, LEAVE_EPOCH, METADATA_REFRESH_MS, Client
from kafkapy.groups.modern.settings import (
    ASSIGNMENT_INTERVAL,
    HEARTBEAT_INTERVAL,
    GroupSettings,
)
from kafkapy.groups.modern.target_computations import ComputedTarget, TargetComputations
from kafkapy.groups.modern.topic_arrays import in_order
from kafkapy.groups.modern.topics import TopicsView
from kafkapy.groups.share import records
from kafkapy.groups.share.group import ShareGroup, Transition
from kafkapy.groups.share.member import Partitions, ShareMember
from kafkapy.groups.share.target import TargetRequest, target_request
from kafkapy.logs.text import shortened
from kafkapy.loop.clock import Clock
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

MAX_MEMBER_ID: Final = 36

logger = logging.getLogger(__name__)


class ShareHeartbeats:
    """Handles the heartbeats of members of share groups."""

    def __init__(
        self,
        settings: GroupSettings,
        clock: Clock,
        *,
        topics: Callable[[], TopicsView],
        computations: TargetComputations[ShareGroup, TargetRequest],
        deadlines: Deadlines[ShareGroup],
    ) -> None:
        """`computations` computes large targets, and calls `assign` with them."""
        self._settings = settings
        self._clock = clock
        self._topics = topics
        self._computations = computations
        self._deadlines = deadlines
        self.rebalances = 0
        """How often a heartbeat has raised the epoch of a group."""

    def require_valid(self, request: ShareGroupHeartbeatRequest) -> None:
        """Raise KafkaError INVALID_REQUEST if the request makes no sense, whatever the group."""
        if not request.member_id or len(request.member_id) > MAX_MEMBER_ID:
            raise _invalid("Invalid member id in the request.")
        for value, name in ((request.member_id, "MemberId"), (request.group_id, "GroupId")):
            if not value.strip():
                raise _invalid(f"{name} can't be empty.")
        if request.rack_id is not None and not request.rack_id.strip():
            raise _invalid("RackId can't be empty.")
        if request.member_epoch == JOIN_EPOCH:
            if not request.subscribed_topic_names:
                raise _invalid("SubscribedTopicNames must be set in first request.")
        elif request.member_epoch < LEAVE_EPOCH:
            raise _invalid("MemberEpoch is invalid.")

    # --- events ---------------------------------------------------------------------------------------

    def heartbeat(
        self, transition: Transition, request: ShareGroupHeartbeatRequest, client: Client
    ) -> ShareGroupHeartbeatResponse:
        """Join, or stay a member.

        Raises:
            KafkaError: it is refused; the caller must undo the changes.
        """
        group = transition.group
        before = self._find(group, request)
        names = request.subscribed_topic_names
        member = replace(
            before,
            client_id=client.client_id,
            client_host=client.client_host,
            rack_id=before.rack_id if request.rack_id is None else request.rack_id,
            topic_names=before.topic_names if names is None else frozenset(names),
        )
        group.subscriptions.require_room(before.topic_names, member.topic_names)
        bump = group.assignment_epoch >= group.epoch and group.may_have_unassigned and bool(group.members)
        if member != before or member.member_id not in group.members:
            transition.apply(records.member_metadata(group.group_id, member))
            bump = bump or member.topic_names != before.topic_names
        bump = self._update_epoch(transition, bump=bump)
        self._update_target(transition)
        updated = self._reconcile(transition, member.member_id, subscription_changed=bump)
        transition.afterwards(lambda: self._deadlines.expect_heartbeat(group, updated.member_id))
        response = ShareGroupHeartbeatResponse(
            member_id=updated.member_id,
            member_epoch=updated.epoch,
            heartbeat_interval_ms=self._settings.of(group.group_id, HEARTBEAT_INTERVAL),
        )
        if request.member_epoch == JOIN_EPOCH or names is not None or updated.assigned != before.assigned:
            response.assignment = Assignment(
                topic_partitions=[
                    TopicPartitions(topic_id=topic, partitions=numbers)
                    for topic, numbers in in_order(updated.assigned)
                ]
            )
        return response

    def remove(self, transition: Transition, member_id: str) -> None:
        """Remove a member that leaves, or is late with a heartbeat."""
        group = transition.group
        transition.apply_all(records.member_gone(group.group_id, member_id))
        found = group.existing.hash(self._topics())
        transition.apply(records.group_epoch(group.group_id, group.epoch + 1, found))
        transition.afterwards(lambda: group.timers.cancel_member(member_id))

    def assign(
        self, transition: Transition, request: TargetRequest, target: ComputedTarget[Partitions]
    ) -> None:
        """Make this the group's target assignment."""
        group = transition.group
        transition.apply_targets(target.changes)
        group.may_have_unassigned = request.initialized is not group.state_partitions.initialized
        transition.on_undo(lambda: setattr(group, "may_have_unassigned", True))
        transition.apply(records.assignment_epoch(group.group_id, request.epoch, self._clock.now_ms()))

    # --- the steps of a heartbeat ---------------------------------------------------------------------

    def _find(self, group: ShareGroup, request: ShareGroupHeartbeatRequest) -> ShareMember:
        """The member that the request speaks for; a new one is not added yet."""
        member_id, epoch = request.member_id, request.member_epoch
        known = group.members.get(member_id)
        size = self._settings.config.share_max_size
        if known is None and len(group.members) >= size:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The share group has reached its maximum capacity of {size} members.",
            )
        if known is None and epoch == JOIN_EPOCH:
            logger.info("Group %s: member %s joins", shortened(group.group_id), shortened(member_id))
            return ShareMember(member_id)
        member = group.member(member_id)
        if epoch not in (JOIN_EPOCH, member.epoch) and (
            epoch > member.epoch or epoch != member.previous_epoch
        ):
            than = "greater" if epoch > member.epoch else "smaller"
            what = f"epoch ({epoch}) than the one known by the group coordinator ({member.epoch})"
            if epoch < member.epoch:
                what += f", and it does not match the previous member epoch ({member.previous_epoch})"
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The share group member has a {than} member {what}. "
                "The member must abandon all its partitions and rejoin.",
            )
        return member

    def _update_epoch(self, transition: Transition, *, bump: bool) -> bool:
        """Raise the group epoch if `bump`, or if subscribed topics have changed; return whether."""
        group, now = transition.group, self._clock.now_ms()
        if not bump and now < group.refresh_deadline_ms:
            return False
        found = group.existing.hash(self._topics())
        bump = bump or found != group.metadata_hash
        if bump:
            transition.apply(records.group_epoch(group.group_id, group.epoch + 1, found))
            self.rebalances += 1
            logger.info("Group %s has epoch %d", shortened(group.group_id), group.epoch)
        deadline = group.refresh_deadline_ms
        group.refresh_deadline_ms = now + METADATA_REFRESH_MS
        transition.on_undo(lambda: setattr(group, "refresh_deadline_ms", deadline))
        return bump

    def _update_target(self, transition: Transition) -> None:
        """Compute the target assignment of the group epoch, if it is time to."""
        group, now = transition.group, self._clock.now_ms()
        if group.epoch <= group.assignment_epoch or self._computations.is_running(group):
            return
        interval = self._settings.of(group.group_id, ASSIGNMENT_INTERVAL)
        if group.assignment_timestamp <= now < group.assignment_timestamp + interval:
            return
        request = target_request(group, self._topics())
        if request.is_quick:
            self.assign(transition, request, request.compute())
        else:
            transition.afterwards(lambda: self._computations.begin(group, request))

    def _reconcile(
        self, transition: Transition, member_id: str, *, subscription_changed: bool
    ) -> ShareMember:
        """Give a member its target assignment; return the member as it is then."""
        group = transition.group
        member = group.members[member_id]
        if member.epoch == group.assignment_epoch and not subscription_changed:
            return member
        subscribed = group.subscribed_ids(member.topic_names, self._topics())
        assigned = group.target(member_id)
        if not assigned.keys() <= subscribed:
            assigned = {topic: partitions for topic, partitions in assigned.items() if topic in subscribed}
        updated = replace(member, assigned=assigned)
        if member.epoch != group.assignment_epoch:
            updated = updated.at_epoch(group.assignment_epoch)
        if updated != member:
            group.change_member(
                transition, member_id, updated, records.current_assignment(group.group_id, updated)
            )
        return updated


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
