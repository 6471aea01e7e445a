"""Members that leave a consumer group, or are late with something.

Their partitions are free at once. The group epoch rises; the next heartbeat of another member computes the
new target assignment. If only members with the classic protocol are left, the group becomes a classic group.

Source: Apache Kafka's GroupMetadataManager (consumerGroupFenceMembers).
"""

from __future__ import annotations

from collections.abc import Collection

from kafkapy.groups.classic.join import NO_MEMBER_ID
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.consumer import records
from kafkapy.groups.consumer.group import ConsumerGroup, Transition
from kafkapy.groups.consumer.heartbeat import require_static
from kafkapy.groups.consumer.member import ConsumerMember
from kafkapy.groups.consumer.progress import Progress
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.leave_group import MemberIdentity


def leaving_member(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    """The member that a LeaveGroup names, by its id or its group.instance.id alone.

    Raises:
        KafkaError: there is none.
    """
    instance_id = identity.group_instance_id
    if instance_id is None:
        return group.member(identity.member_id)
    if identity.member_id != NO_MEMBER_ID:
        return require_static(group, instance_id, identity.member_id)
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


def remove_members(transition: Transition, progress: Progress, member_ids: Collection[str]) -> None:
    """Remove members, at least one."""
    group = transition.group
    for member_id in member_ids:
        transition.apply_all(records.member_gone(group.group_id, member_id))
        transition.afterwards(lambda member_id=member_id: group.timers.cancel_member(member_id))  # type: ignore[misc]
    for regex in group.regexes.keys() - group.regex_subscribers.keys():
        transition.apply(records.regular_expression_gone(group.group_id, regex))
    found = group.existing.hash(progress.topics)
    transition.apply(records.group_epoch(group.group_id, group.epoch + 1, found))


def may_downgrade(
    group: ConsumerGroup, config: GroupConfig, *, without: Collection[str], more: int = 0
) -> bool:
    """Whether the group becomes a classic group when these members go.

    `more` members with the classic protocol come in their place.
    """
    left = [member for member_id, member in group.members.items() if member_id not in without]
    return (
        0 < len(left) + more <= config.max_size
        and all(member.classic is not None for member in left)
        and config.downgrades
    )
