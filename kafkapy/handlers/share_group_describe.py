"""ShareGroupDescribe: show the state and members of share groups (KIP-932).

Versions: 1.

Behaviour:

- A group that does not exist, or is not a share group, is GROUP_ID_NOT_FOUND.
- Topics that were deleted are left out of assignments.
- A group that is named twice is described once.
- Members are in the order of Apache Kafka's hash tables (`hash_order.py`).
"""

from __future__ import annotations

from kafkapy.groups.modern.topics import TopicsView
from kafkapy.groups.share.member import ShareMember
from kafkapy.handlers import authorized_operations
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
        groups.runtime.require_active(group_id)
        group = groups.shares.require_group(group_id)
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
    described = DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=groups.shares.default_assignor,
    )
    members = dict(group.members)
    described.members = yield from answer_each(
        (yield from names_in_hash_order(members)),
        lambda member_id: _member(members[member_id], groups.shares.topics),
    )
    if request.include_authorized_operations:
        described.authorized_operations = authorized_operations.GROUP
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
