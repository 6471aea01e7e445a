"""AlterShareGroupOffsets: let a share group begin at other offsets (KIP-932).

Versions: 0.

Behaviour:

- The group must have no members: NON_EMPTY_GROUP. A group that does not exist is created.
- The share coordinator forgets what became of single records, and begins anew at the offset.
- A partition that does not exist gets its own error; the others are altered.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_each, answer_partitions
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kafkapy.security.acls.model import REFUSAL_TEXTS, Operation, ResourceType


async def handle(
    context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    """Alter the offsets of one group."""
    if not request.group_id:
        return AlterShareGroupOffsetsResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    broker = context.broker

    def may_read(topic: AlterShareGroupOffsetsRequestTopic) -> AlterShareGroupOffsetsRequestTopic | None:
        return topic if context.may(Operation.READ, ResourceType.TOPIC, topic.topic_name) else None

    try:
        allowed = await broker.turns.finish(answer_each(request.topics, may_read))
        answers = await broker.groups.share_offsets.alter(request.group_id, allowed, broker.turns)
        if len(allowed) < len(request.topics):
            answers += await broker.turns.finish(_refused(context, request.topics))
    except KafkaError as error:
        return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    return AlterShareGroupOffsetsResponse(responses=answers)


def _refused(
    context: RequestContext, topics: Sequence[AlterShareGroupOffsetsRequestTopic]
) -> Steps[list[AlterShareGroupOffsetsResponseTopic]]:
    """The answers about the topics that the client may not read."""
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return answer_partitions(
        (each for each in topics if not context.may(Operation.READ, ResourceType.TOPIC, each.topic_name)),
        lambda topic: topic.partitions,
        lambda _, asked: AlterShareGroupOffsetsResponsePartition(
            partition_index=asked.partition_index, error_code=error, error_message=REFUSAL_TEXTS[error]
        ),
        lambda topic, answers: AlterShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name, partitions=answers
        ),
    )
