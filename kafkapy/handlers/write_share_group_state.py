"""WriteShareGroupState: store what the leader of a partition decided (KIP-932).

Versions: 0-1.

Behaviour:

- The leader of a partition asks this of a share coordinator (`kafkapy.share.share_coordinator`).
- A broker alone refuses it to clients: CLUSTER_AUTHORIZATION_FAILED for each share partition.
- The answer waits until it is committed.
- A lower leader epoch is FENCED_LEADER_EPOCH, and a lower state epoch FENCED_STATE_EPOCH.

Version notes:

- v1 adds how many records need no delivery any more.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.share_states import answer_each
from kafkapy.protocol.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)
from kafkapy.share.state_records import ShareKey


async def handle(
    context: RequestContext, request: WriteShareGroupStateRequest
) -> WriteShareGroupStateResponse:
    """Answer each share partition on its own."""
    broker = context.broker

    async def answer(key: ShareKey, data: PartitionData, result: PartitionResult) -> None:
        await broker.shares.coordinator.write(key, data)

    response = WriteShareGroupStateResponse()
    await answer_each(context, request, response.results, WriteStateResult, PartitionResult, answer)
    return response
