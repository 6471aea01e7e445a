"""ReadShareGroupStateSummary: read the states of share partitions in short (KIP-932).

Versions: 0-1.

Behaviour:

- A group coordinator asks this of a share coordinator (`kafkapy.share.share_coordinator`).
- A broker alone refuses it to clients: CLUSTER_AUTHORIZATION_FAILED for each share partition.
- A state that does not exist has the start offset -1.
- A share partition that is named twice is answered once.

Version notes:

- v1 adds how many records need no delivery any more.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.share_states import answer_each
from kafkapy.protocol.messages.read_share_group_state_summary import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)
from kafkapy.share.state import ShareState
from kafkapy.share.state_records import ShareKey


async def handle(
    context: RequestContext, request: ReadShareGroupStateSummaryRequest
) -> ReadShareGroupStateSummaryResponse:
    """Answer each share partition on its own."""
    broker = context.broker

    async def answer(key: ShareKey, _: PartitionData, result: PartitionResult) -> None:
        state = broker.shares.coordinator.summary(key) or ShareState()
        result.state_epoch, result.leader_epoch = state.state_epoch, state.leader_epoch
        result.start_offset = state.start_offset
        result.delivery_complete_count = state.delivery_complete_count

    response = ReadShareGroupStateSummaryResponse()
    await answer_each(
        context, request, response.results, ReadStateSummaryResult, PartitionResult, answer, reads=True
    )
    return response
