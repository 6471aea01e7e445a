"""DeleteShareGroupState: forget the states of share partitions (KIP-932).

Versions: 0.

Behaviour:

- A group coordinator asks this of a share coordinator (`kafkapy.share.share_coordinator`).
- A broker alone refuses it to clients: CLUSTER_AUTHORIZATION_FAILED for each share partition.
- A state that does not exist is not an error.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.share_states import answer_each
from kafkapy.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionData,
    PartitionResult,
)
from kafkapy.share.state_records import ShareKey


async def handle(
    context: RequestContext, request: DeleteShareGroupStateRequest
) -> DeleteShareGroupStateResponse:
    """Answer each share partition on its own."""
    broker = context.broker

    async def answer(key: ShareKey, _: PartitionData, result: PartitionResult) -> None:
        await broker.shares.coordinator.delete(key)

    response = DeleteShareGroupStateResponse()
    await answer_each(context, request, response.results, DeleteStateResult, PartitionResult, answer)
    return response
