"""Members of a consumer group that use the classic protocol.

They join, sync and leave as in a classic group, but the coordinator assigns their partitions. A member's
epoch is its generation. JoinGroup is answered at once, with the first protocol of the member: there is no
leader. A heartbeat tells the member to rejoin when there is something to give up, or something new to get.

Source: Apache Kafka's GroupMetadataManager (classicGroupJoinToConsumerGroup and the like).
"""

from __future__ import annotations

from dataclasses import replace

from kafkapy.groups.classic.join import FIRST_VERSION_WITH_REQUIRED_MEMBER_ID, NO_MEMBER_ID, Joining
from kafkapy.groups.classic.subscription import CONSUMER_PROTOCOL_TYPE
from kafkapy.groups.consumer import records
from kafkapy.groups.consumer.conversion import classic_assignment, read_subscription
from kafkapy.groups.consumer.group import ConsumerGroup, Transition
from kafkapy.groups.consumer.heartbeat import replace_static, require_static
from kafkapy.groups.consumer.member import ClassicProtocol, ConsumerMember, MemberState
from kafkapy.groups.consumer.progress import Progress
from kafkapy.groups.consumer.regex_refresh import RegexRefresh
from kafkapy.groups.modern.timeouts import Timeout
from kafkapy.protocol.errors import DecodeError, ErrorCode, KafkaError
from kafkapy.protocol.messages.consumer_group_heartbeat import TopicPartitions
from kafkapy.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.join_group import JoinGroupResponse
from kafkapy.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class ClassicMembers:
    """Handles the requests of members that use the classic protocol."""

    def __init__(self, progress: Progress, refresh: RegexRefresh) -> None:
        self._progress = progress
        self._refresh = refresh

    def require_joinable(self, group: ConsumerGroup, joining: Joining) -> None:
        """Raise KafkaError if the member cannot join, whatever the group does."""
        size = self._progress.settings.config.consumer_max_size
        if len(group.members) >= size and joining.member_id not in group.members:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if not group.supports_classic(joining.protocol_type, [name for name, _ in joining.protocols]):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def needs_id(self, joining: Joining) -> bool:
        """Whether the client must join again with the id that it is given."""
        return (
            joining.member_id == NO_MEMBER_ID
            and joining.group_instance_id is None
            and joining.version >= FIRST_VERSION_WITH_REQUIRED_MEMBER_ID
        )

    def join(
        self, transition: Transition, joining: Joining, member_id: str, *, assigns: bool
    ) -> tuple[ConsumerMember, bool]:
        """Add or update a member; return it, and whether its subscription changed.

        If not `assigns`, the group is about to become a classic group: no target assignment is computed, and
        a member with another subscription gets nothing yet.

        Raises:
            KafkaError: it is refused; the caller must undo the changes.
        """
        progress, group = self._progress, transition.group
        before = self._find(transition, joining, member_id)
        subscription = _subscription(joining)
        member = replace(
            before,
            instance_id=joining.group_instance_id or before.instance_id,
            rack_id=subscription.rack_id or before.rack_id,
            rebalance_timeout_ms=joining.rebalance_timeout_ms,
            topic_names=frozenset(subscription.topics),
            topic_regex="",
            client_id=joining.client_id,
            client_host=joining.client_host,
            classic=ClassicProtocol(joining.session_timeout_ms, joining.protocols),
        )
        group.subscriptions.require_room(before.topic_names, member.topic_names)
        regex_change = self._refresh.change(transition, before, member)
        if member_id not in group.members or member != before:
            transition.apply(records.member_metadata(group.group_id, member))
        changed = member.topic_names != before.topic_names or regex_change.is_changed
        progress.update_epoch(transition, bump=changed)
        if assigns:
            progress.update_target(transition)
        if assigns or not changed:
            owned = self._owned(subscription)
            member = progress.reconcile(transition, member_id, owned, subscription_changed=changed)
        return member, changed

    def joined(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Expect the member's next requests: it has joined."""
        group.timers.cancel(member.member_id, Timeout.JOIN)
        self._progress.expect_heartbeat(group, member)
        self._progress.deadlines.expect(group, member.member_id, Timeout.SYNC, member.rebalance_timeout_ms)

    def join_response(self, member: ConsumerMember) -> JoinGroupResponse:
        """The answer to a member that has joined."""
        return JoinGroupResponse(
            member_id=member.member_id,
            generation_id=member.epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=_protocol(member)[0],
        )

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest) -> SyncGroupResponse:
        """The member's assignment.

        Raises:
            KafkaError: it is refused.
        """
        member = self._require_member(group, request.member_id, request.group_instance_id)
        _require_generation(member, request.generation_id)
        name, metadata = _protocol(member)
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if request.protocol_name not in (None, name):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        # Until the next assignment is computed, it gets the last one. Its heartbeat lets it join again.
        is_behind = group.assignment_epoch > member.epoch
        if is_behind and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._expect_join(group, member)
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        group.timers.cancel(member.member_id, Timeout.SYNC)
        self._progress.expect_heartbeat(group, member)
        return SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=classic_assignment(member.assigned, metadata, self._progress.topics),
        )

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> ErrorCode:
        """REBALANCE_IN_PROGRESS if the member has to rejoin.

        Raises:
            KafkaError: it is refused.
        """
        member = self._require_member(group, request.member_id, request.group_instance_id)
        _require_generation(member, request.generation_id)
        self._progress.expect_heartbeat(group, member)
        state = member.state
        if (
            member.epoch < group.epoch
            or state is MemberState.UNREVOKED_PARTITIONS
            or (state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member))
        ):
            self._expect_join(group, member)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _find(self, transition: Transition, joining: Joining, member_id: str) -> ConsumerMember:
        group, instance_id = transition.group, joining.group_instance_id
        if instance_id is None:
            return group.members.get(member_id, ConsumerMember(member_id))
        if joining.member_id != NO_MEMBER_ID:
            return require_static(group, instance_id, member_id)
        existing = group.static_member(instance_id)
        if existing is None:
            return ConsumerMember(member_id)
        return replace_static(transition, existing, member_id)

    def _require_member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None
    ) -> ConsumerMember:
        if instance_id is None:
            return _require_classic(group.member(member_id))
        return _require_classic(require_static(group, instance_id, member_id))

    def _expect_join(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        if not group.timers.is_set(member.member_id, Timeout.JOIN):
            self._progress.deadlines.expect(
                group, member.member_id, Timeout.JOIN, member.rebalance_timeout_ms
            )

    def _owned(self, subscription: ConsumerProtocolSubscription) -> list[TopicPartitions]:
        topics = self._progress.topics.image.topics
        return [
            TopicPartitions(topic_id=topics[each.topic].id, partitions=list(each.partitions))
            for each in subscription.owned_partitions
            if each.topic in topics
        ]


def _require_classic(member: ConsumerMember) -> ConsumerMember:
    if member.classic is None:
        message = f"Member {member.member_id} does not use the classic protocol."
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, message)
    return member


def _require_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


def _protocol(member: ConsumerMember) -> tuple[str, bytes]:
    """The protocol that a member joined with, and its metadata."""
    assert member.classic is not None
    return member.classic.protocols[0]


def _subscription(joining: Joining) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(joining.protocols[0][1])
    except DecodeError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Malformed subscription: {error}") from None
