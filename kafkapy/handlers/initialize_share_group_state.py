"""InitializeShareGroupState: let the states of share partitions begin (KIP-932).

Versions: 0.

Behaviour:

- A group coordinator asks this of a share coordinator (`kafkapy.share.share_coordinator`).
- A broker alone refuses it to clients: CLUSTER_AUTHORIZATION_FAILED for each share partition.
- What was known of the share partition before is forgotten. A lower state epoch is FENCED_STATE_EPOCH.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.share_states import answer_each
from kafkapy.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionData,
    PartitionResult,
)
from kafkapy.share.state_records import ShareKey


async def handle(
    context: RequestContext, request: InitializeShareGroupStateRequest
) -> InitializeShareGroupStateResponse:
    """Answer each share partition on its own."""
    broker = context.broker

    async def answer(key: ShareKey, data: PartitionData, result: PartitionResult) -> None:
        await broker.shares.coordinator.initialize(key, data)

    response = InitializeShareGroupStateResponse()
    await answer_each(context, request, response.results, InitializeStateResult, PartitionResult, answer)
    return response
