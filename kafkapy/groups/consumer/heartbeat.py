"""ConsumerGroupHeartbeat: members join, follow their target assignment, and leave.

A member joins with epoch 0. A static member that comes back takes the place of the member with its
group.instance.id, which must have left with epoch -2. A member that has lost an answer may repeat its last
epoch, if it has only partitions that are assigned to it.

Source: Apache Kafka's GroupMetadataManager (consumerGroupHeartbeat).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from kafkapy.groups.consumer import records
from kafkapy.groups.consumer.group import ConsumerGroup, Transition
from kafkapy.groups.consumer.member import ConsumerMember
from kafkapy.groups.consumer.progress import Progress
from kafkapy.groups.consumer.regex_refresh import RegexRefresh
from kafkapy.groups.modern.heartbeats import JOIN_EPOCH, STATIC_LEAVE_EPOCH, UNSET, Client
from kafkapy.groups.modern.settings import HEARTBEAT_INTERVAL
from kafkapy.groups.modern.topic_arrays import in_order
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

FIRST_VERSION_WITH_MEMBER_ID: Final = 1


class Heartbeats:
    """Handles the heartbeats of members that use the consumer protocol."""

    def __init__(self, progress: Progress, refresh: RegexRefresh) -> None:
        self._progress = progress
        self._refresh = refresh

    def require_valid(self, request: ConsumerGroupHeartbeatRequest, version: int) -> None:
        """Raise KafkaError INVALID_REQUEST or UNSUPPORTED_ASSIGNOR if the request makes no sense."""
        for value, name in (
            (request.member_id if version >= FIRST_VERSION_WITH_MEMBER_ID else None, "MemberId"),
            (request.group_id, "GroupId"),
            (request.instance_id, "InstanceId"),
            (request.rack_id, "RackId"),
        ):
            if value is not None and not value.strip():
                raise _invalid(f"{name} can't be empty.")
        epoch = request.member_epoch
        if epoch == JOIN_EPOCH:
            if request.rebalance_timeout_ms == UNSET:
                raise _invalid("RebalanceTimeoutMs must be provided in first request.")
            if request.topic_partitions is None or request.topic_partitions:
                raise _invalid("TopicPartitions must be empty when (re-)joining.")
            if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
                raise _invalid(
                    "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
                )
        elif epoch > JOIN_EPOCH:
            if not request.member_id.strip():
                raise _invalid("MemberId can't be empty.")
        elif epoch == STATIC_LEAVE_EPOCH:
            if request.instance_id is None:
                raise _invalid("InstanceId can't be null.")
        elif epoch < STATIC_LEAVE_EPOCH:
            raise _invalid("MemberEpoch is invalid.")
        assignors = self._progress.assignors
        if request.server_assignor is not None and request.server_assignor not in assignors:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                f"ServerAssignor {request.server_assignor} is not supported. "
                f"Supported assignors: {', '.join(assignors)}.",
            )

    def heartbeat(
        self,
        transition: Transition,
        request: ConsumerGroupHeartbeatRequest,
        client: Client,
        invalid_regex: KafkaError | None = None,
    ) -> ConsumerGroupHeartbeatResponse:
        """Join, or stay a member.

        `invalid_regex` is the error of the regular expression of the request.

        Raises:
            KafkaError: it is refused; the caller must undo the changes.
        """
        progress, group = self._progress, transition.group
        before = self._find(transition, request)
        member_id = before.member_id
        member = replace(
            before,
            client_id=client.client_id,
            client_host=client.client_host,
            classic=None,
            **_given(request),
        )
        names_changed = member.topic_names != before.topic_names
        if names_changed:
            group.subscriptions.require_room(before.topic_names, member.topic_names)
        is_joining = member_id not in group.members
        regex_change = self._refresh.change(transition, before, member, invalid_regex)
        if is_joining or member != before:
            transition.apply(records.member_metadata(group.group_id, member))
        self._refresh.refresh_if_due(transition, client.may_describe)
        progress.update_epoch(transition, bump=names_changed or regex_change.is_resolved)
        progress.update_target(transition)
        updated = progress.reconcile(
            transition,
            member_id,
            request.topic_partitions,
            subscription_changed=names_changed or regex_change.is_changed,
        )
        transition.afterwards(lambda: progress.expect_heartbeat(group, updated))
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=updated.epoch,
            heartbeat_interval_ms=progress.settings.of(group.group_id, HEARTBEAT_INTERVAL),
        )
        if request.member_epoch == JOIN_EPOCH or _is_full(request) or not updated.has_same_partitions(before):
            response.assignment = Assignment(
                topic_partitions=[
                    TopicPartitions(topic_id=topic, partitions=numbers)
                    for topic, numbers in in_order(updated.assigned)
                ]
            )
        return response

    def leaving(self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember:
        """The member that leaves with this request; raises KafkaError."""
        if request.instance_id is None:
            return group.member(request.member_id)
        return require_static(group, request.instance_id, request.member_id)

    def leave_for_now(self, transition: Transition, member: ConsumerMember) -> None:
        """Let a static member go, which may come back before its session expires.

        It comes back with epoch 0, and may then commit all its partitions.
        """
        assigned = {topic: dict.fromkeys(epochs, JOIN_EPOCH) for topic, epochs in member.assigned.items()}
        away = replace(member, epoch=STATIC_LEAVE_EPOCH, assigned=assigned, revoking={})
        transition.apply(records.current_assignment(transition.group.group_id, away))

    def _find(self, transition: Transition, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember:
        """The member that the request speaks for; a new one is not added yet."""
        group, member_id, joins = transition.group, request.member_id, request.member_epoch == JOIN_EPOCH
        size = self._progress.settings.config.consumer_max_size
        if len(group.members) >= size and member_id not in group.members:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {size} members.",
            )
        if request.instance_id is None:
            known = group.members.get(member_id)
            if known is None and joins:
                return ConsumerMember(member_id)
            member = group.member(member_id)
            _require_epoch(member, request.member_epoch, request.topic_partitions)
            return member
        if not joins:
            member = require_static(group, request.instance_id, member_id)
            _require_epoch(member, request.member_epoch, request.topic_partitions)
            return member
        existing = group.static_member(request.instance_id)
        if existing is None:
            return group.members.get(member_id, ConsumerMember(member_id))
        if existing.classic is None and not existing.is_away:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {request.instance_id} cannot join the group "
                f"because the instance id is owned by {existing.member_id} member.",
            )
        return replace_static(transition, existing, member_id)


def require_static(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerMember:
    """The static member, whose member id must be this.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} "
            f"was fenced by member {member.member_id}.",
        )
    return member


def replace_static(transition: Transition, old: ConsumerMember, member_id: str) -> ConsumerMember:
    """Give a static member a new member id.

    It keeps its partitions, and starts at epoch 0.
    """
    group = transition.group
    new = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
    target = group.target(old.member_id)
    transition.apply_all(records.member_gone(group.group_id, old.member_id))
    transition.apply(records.member_metadata(group.group_id, new))
    transition.apply(records.target_assignment(group.group_id, member_id, target))
    transition.apply(records.current_assignment(group.group_id, new))
    if old.member_id != member_id:
        transition.afterwards(lambda: group.timers.cancel_member(old.member_id))
    return group.members[member_id]


def _require_epoch(member: ConsumerMember, epoch: int, owned: Sequence[TopicPartitions] | None) -> None:
    if epoch == JOIN_EPOCH or epoch == member.epoch:
        return
    if epoch == member.previous_epoch and epoch < member.epoch and member.owns_all(owned):
        return  # the answer with the new epoch may have been lost
    than = "greater" if epoch > member.epoch else "smaller"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {than} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _given(request: ConsumerGroupHeartbeatRequest) -> dict[str, Any]:
    """The fields of a member that the request gives."""
    given: dict[str, Any] = {}
    if request.instance_id is not None:
        given["instance_id"] = request.instance_id
    if request.rack_id is not None:
        given["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms != UNSET:
        given["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.server_assignor is not None:
        given["assignor"] = request.server_assignor
    if request.subscribed_topic_names is not None:
        given["topic_names"] = frozenset(request.subscribed_topic_names)
    if request.subscribed_topic_regex is not None:
        given["topic_regex"] = request.subscribed_topic_regex
    return given


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the request says everything: after an error a member repeats all that it said."""
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != UNSET and subscribes and request.topic_partitions is not None


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
