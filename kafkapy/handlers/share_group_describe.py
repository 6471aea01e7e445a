"""ShareGroupDescribe: show the state and members of share groups (KIP-932).

Versions: 1.

Behaviour:

- A group that does not exist, or is not a share group, is GROUP_ID_NOT_FOUND.
- Topics that were deleted are left out of assignments.
- A group that is named twice is described once.
- Members are in the order of Apache Kafka's hash tables (`hash_order.py`).
"""

from __future__ import annotations

from typing import Final

from kafkapy.groups.modern.topics import TopicsView
from kafkapy.groups.share.group import ShareGroup
from kafkapy.groups.share.member import ShareMember
from kafkapy.handlers import topic_rights
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.hash_order import names_in_hash_order
from kafkapy.handlers.per_partition import answer_each, answer_in_steps
from kafkapy.loop.turns import Steps, counted
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from kafkapy.security.acls.model import Operation, ResourceType

TOPIC_VALUES: Final = 4
"""The values of a topic in the description of a member: it has an id and a name, which is a text."""


def handle(context: RequestContext, request: ShareGroupDescribeRequest) -> Steps[ShareGroupDescribeResponse]:
    """Describe each group once."""
    named = yield from counted(request.group_ids)
    described = yield from answer_in_steps(named, lambda group_id: _describe(context, request, group_id))
    return ShareGroupDescribeResponse(groups=described)


def _describe(
    context: RequestContext, request: ShareGroupDescribeRequest, group_id: str
) -> Steps[DescribedGroup]:
    groups = context.broker.groups
    try:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        context.require(Operation.DESCRIBE, ResourceType.GROUP, group_id)
        groups.runtime.require_active(group_id)
        return (yield from _described(context, request, groups.shares.require_group(group_id)))
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)


def _described(
    context: RequestContext, request: ShareGroupDescribeRequest, group: ShareGroup
) -> Steps[DescribedGroup]:
    groups = context.broker.groups
    described = DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=groups.shares.default_assignor,
    )
    members = dict(group.members)

    def describe(member_id: str) -> Member:
        member = members[member_id]
        values = sum(TOPIC_VALUES + len(numbers) for numbers in member.assigned.values())
        values += TOPIC_VALUES * len(member.topic_names)
        context.charge(values, member.nbytes, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        shown = _member(member, groups.shares.topics)
        topic_rights.require_shown(context, (each.topic_name for each in shown.assignment.topic_partitions))
        return shown

    described.members = yield from answer_each((yield from names_in_hash_order(members)), describe)
    if request.include_authorized_operations:
        described.authorized_operations = context.operations_on(ResourceType.GROUP, group.group_id)
    return described


def _member(member: ShareMember, topics: TopicsView) -> Member:
    by_id = topics.image.topics_by_id
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic, topic_name=by_id[topic].name, partitions=sorted(partitions))
                for topic, partitions in member.assigned.items()
                if topic in by_id
            ]
        ),
    )
