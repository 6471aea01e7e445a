"""DescribeShareGroupOffsets: show where share groups are (KIP-932, KIP-1226).

Versions: 0-1.

Behaviour:

- The start offset and leader epoch come from the share coordinator. The start offset is -1 if nobody has read
  from the partition yet, or if it cannot be found out.
- Without a list of topics, all share partitions of the group are shown: none, if there is no such group.
- A group that is named twice is answered once, as it is named first. So is a partition of a group.
- Partitions of an empty group id are INVALID_GROUP_ID. Apache Kafka answers UNKNOWN_SERVER_ERROR.

Version notes:

- v1 adds the lag: the records that are still to be delivered; -1 if it is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kafkapy.groups.share.offsets import UNKNOWN
from kafkapy.handlers import topic_rights
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_each
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kafkapy.security.acls.model import REFUSAL_TEXTS, Operation, ResourceType

VALUES: Final = 6
"""The values of a partition, and about those of a topic."""


async def handle(
    context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    """Answer each group on its own."""
    groups, offsets = context.broker.groups, context.broker.groups.share_offsets
    response = DescribeShareGroupOffsetsResponse()
    turns = context.broker.turns
    turn = turns.begin()
    answered: set[str] = set()
    may_describe = topic_rights.may_describe_of(context)
    for group in request.groups:
        if turn.is_over():
            await turn.end()
        if group.group_id in answered:
            continue
        answered.add(group.group_id)
        answer = DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id)
        response.groups.append(answer)
        try:
            context.require(Operation.DESCRIBE, ResourceType.GROUP, group.group_id)
            if group.topics is None:
                groups.runtime.require_active(group.group_id)
                found = await offsets.describe_all(group.group_id, turns)
                answer.topics = [each for each in found if may_describe(each.topic_name)]
            elif not group.group_id:
                raise KafkaError(ErrorCode.INVALID_GROUP_ID)
            else:
                allowed, hidden = await turns.finish(_by_rights(group.topics, may_describe))
                answer.topics = [*await offsets.describe(group.group_id, allowed, turns), *hidden]
            values = sum(VALUES * (1 + len(topic.partitions)) for topic in answer.topics)
            context.charge(values, 0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        except KafkaError as error:
            answer.topics = []
            answer.error_code, answer.error_message = error.code, error.message
    return response


def _by_rights(
    topics: Sequence[DescribeShareGroupOffsetsRequestTopic], may_describe: Callable[[str], bool]
) -> Steps[tuple[list[DescribeShareGroupOffsetsRequestTopic], list[DescribeShareGroupOffsetsResponseTopic]]]:
    """The topics that the client may know, and the answers about the others."""
    allowed = []
    hidden = []
    for topic in topics:
        yield
        if may_describe(topic.topic_name):
            allowed.append(topic)
            continue
        refused = yield from answer_each(topic.partitions, _refused)
        hidden.append(DescribeShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, partitions=refused))
    return allowed, hidden


def _refused(index: int) -> DescribeShareGroupOffsetsResponsePartition:
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index,
        start_offset=UNKNOWN,
        lag=UNKNOWN,
        error_code=error,
        error_message=REFUSAL_TEXTS[error],
    )
