"""DeleteShareGroupOffsets: forget what a share group has been given of topics (KIP-932).

Versions: 0.

Behaviour:

- The group must have no members: NON_EMPTY_GROUP.
- The states of all partitions of a topic are deleted. Members that come later begin where the settings of the
  group say.
- A topic without such states gets UNKNOWN_TOPIC_OR_PARTITION; the others are deleted.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkapy.handlers.context import RequestContext
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kafkapy.security.acls.model import REFUSAL_TEXTS, Operation, ResourceType


async def handle(
    context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    """Delete the offsets of one group."""
    if not request.group_id:
        return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    broker = context.broker
    try:
        allowed, hidden = await broker.turns.finish(_by_rights(context, request.topics))
        answers = await broker.groups.share_offsets.delete(request.group_id, allowed, broker.turns)
    except KafkaError as error:
        return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    return DeleteShareGroupOffsetsResponse(responses=[*hidden, *answers])


def _by_rights(
    context: RequestContext, topics: Sequence[DeleteShareGroupOffsetsRequestTopic]
) -> Steps[tuple[list[DeleteShareGroupOffsetsRequestTopic], list[DeleteShareGroupOffsetsResponseTopic]]]:
    """The topics that the client may read, and the answers about the others."""
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    allowed = []
    hidden = []
    for topic in topics:
        yield
        if context.may(Operation.READ, ResourceType.TOPIC, topic.topic_name):
            allowed.append(topic)
        else:
            hidden.append(
                DeleteShareGroupOffsetsResponseTopic(
                    topic_name=topic.topic_name, error_code=error, error_message=REFUSAL_TEXTS[error]
                )
            )
    return allowed, hidden
