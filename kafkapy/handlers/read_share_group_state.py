"""ReadShareGroupState: read the states of share partitions (KIP-932).

Versions: 0.

Behaviour:

- The leader of a partition asks this of a share coordinator (`kafkapy.share.share_coordinator`).
- A broker alone refuses it to clients: CLUSTER_AUTHORIZATION_FAILED for each share partition.
- Its leader epoch is noted, so that earlier leaders are fenced. A lower one is FENCED_LEADER_EPOCH.
- A share partition that is named twice is answered once.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.share_states import answer_each
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.read_share_group_state import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)
from kafkapy.share.state_records import ShareKey


async def handle(context: RequestContext, request: ReadShareGroupStateRequest) -> ReadShareGroupStateResponse:
    """Answer each share partition on its own."""
    broker = context.broker

    async def answer(key: ShareKey, data: PartitionData, result: PartitionResult) -> None:
        state = await broker.shares.coordinator.read(key, data.leader_epoch)
        context.charge(4 * len(state.batches), 0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        result.state_epoch, result.start_offset = state.state_epoch, state.start_offset
        result.state_batches = [
            StateBatch(first_offset=first, last_offset=last, delivery_state=number, delivery_count=count)
            for first, last, number, count in state.batches
        ]

    response = ReadShareGroupStateResponse()
    await answer_each(
        context, request, response.results, ReadStateResult, PartitionResult, answer, reads=True
    )
    return response
