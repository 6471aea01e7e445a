"""ConsumerGroupDescribe: show the state and members of consumer groups (KIP-848).

Versions: 0-1.

Behaviour:

- A group that does not exist, or is not a consumer group, is GROUP_ID_NOT_FOUND. Tools then ask with
  DescribeGroups.
- A member has the partitions that it must give up until it has given them up.
- Topics that were deleted are left out of assignments.
- A group that is named twice is described once.
- Members are in the order of Apache Kafka's hash tables (`hash_order.py`).
- Without `consumer` in `group.coordinator.rebalance.protocols` each group is UNSUPPORTED_VERSION.

Version notes:

- v1 adds whether a member uses the classic or the consumer protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kafkapy.groups.consumer.group import ConsumerGroup
from kafkapy.groups.consumer.member import ConsumerMember
from kafkapy.groups.modern.topics import TopicsView
from kafkapy.handlers import rebalance_protocols, topic_rights
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.hash_order import names_in_hash_order
from kafkapy.handlers.per_partition import answer_each, answer_in_steps
from kafkapy.loop.turns import Steps, counted
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from kafkapy.protocol.types import Uuid
from kafkapy.security.acls.model import Operation, ResourceType

CLASSIC: Final = 0
CONSUMER: Final = 1


TOPIC_VALUES: Final = 4
"""The values of a topic in the description of a member: it has an id and a name, which is a text."""


def handle(
    context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Steps[ConsumerGroupDescribeResponse]:
    """Describe each group once."""
    named = yield from counted(request.group_ids)
    described = yield from answer_in_steps(named, lambda group_id: _describe(context, request, group_id))
    return ConsumerGroupDescribeResponse(groups=described)


def _describe(
    context: RequestContext, request: ConsumerGroupDescribeRequest, group_id: str
) -> Steps[DescribedGroup]:
    groups = context.broker.groups
    try:
        rebalance_protocols.require(context, "consumer")
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        context.require(Operation.DESCRIBE, ResourceType.GROUP, group_id)
        groups.runtime.require_active(group_id)
        return (yield from _described(context, request, groups.consumers.require_group(group_id)))
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)


def _described(
    context: RequestContext, request: ConsumerGroupDescribeRequest, group: ConsumerGroup
) -> Steps[DescribedGroup]:
    groups = context.broker.groups
    described = DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor() or groups.consumers.default_assignor,
    )
    members = dict(group.members)

    def describe(member_id: str) -> Member:
        member = members[member_id]
        topics = (*member.assigned.values(), *member.revoking.values(), *group.target(member_id).values())
        values = sum(TOPIC_VALUES + len(numbers) for numbers in topics)
        values += TOPIC_VALUES * len(member.topic_names)
        context.charge(values, member.nbytes, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        shown = _member(group, member, groups.consumers.topics)
        for assignment in (shown.assignment, shown.target_assignment):
            topic_rights.require_shown(context, (each.topic_name for each in assignment.topic_partitions))
        return shown

    described.members = yield from answer_each((yield from names_in_hash_order(members)), describe)
    if request.include_authorized_operations:
        described.authorized_operations = context.operations_on(ResourceType.GROUP, group.group_id)
    return described


def _member(group: ConsumerGroup, member: ConsumerMember, topics: TopicsView) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(member.partitions, topics),
        target_assignment=_assignment(group.target(member.member_id), topics),
        member_type=CONSUMER if member.classic is None else CLASSIC,
    )


def _assignment(partitions: Mapping[Uuid, Iterable[int]], topics: TopicsView) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(
                topic_id=topic, topic_name=topics.image.topics_by_id[topic].name, partitions=sorted(numbers)
            )
            for topic, numbers in partitions.items()
            if topic in topics.image.topics_by_id
        ]
    )
