"""DeleteShareGroupOffsets: forget what a share group has been given of topics (KIP-932).

Versions: 0.

Behaviour:

- The group must have no members: NON_EMPTY_GROUP.
- The states of all partitions of a topic are deleted. Members that come later begin where the settings of the
  group say.
- A topic without such states gets UNKNOWN_TOPIC_OR_PARTITION; the others are deleted.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)


async def handle(
    context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    """Delete the offsets of one group."""
    if not request.group_id:
        return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    broker = context.broker
    try:
        answers = await broker.groups.share_offsets.delete(request.group_id, request.topics, broker.turns)
    except KafkaError as error:
        return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    return DeleteShareGroupOffsetsResponse(responses=answers)
