"""AlterShareGroupOffsets: let a share group begin at other offsets (KIP-932).

Versions: 0.

Behaviour:

- The group must have no members: NON_EMPTY_GROUP. A group that does not exist is created.
- The share coordinator forgets what became of single records, and begins anew at the offset.
- A partition that does not exist gets its own error; the others are altered.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)


async def handle(
    context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    """Alter the offsets of one group."""
    if not request.group_id:
        return AlterShareGroupOffsetsResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    broker = context.broker
    try:
        answers = await broker.groups.share_offsets.alter(request.group_id, request.topics, broker.turns)
    except KafkaError as error:
        return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    return AlterShareGroupOffsetsResponse(responses=answers)
