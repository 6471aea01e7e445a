"""ReadShareGroupStateSummary: read the states of share partitions in short (KIP-932).

Versions: 0-1.

Behaviour:

- A group coordinator asks this of a share coordinator (`kafkapy.share.share_coordinator`).
- A state that does not exist has the start offset -1.

Version notes:

- v1 adds how many records need no delivery any more.
"""

from __future__ import annotations

from kafkapy.handlers.context import BrokerParts, RequestContext
from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.messages.read_share_group_state_summary import (
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
    return await answer_own(context.broker, request)


async def answer_own(
    broker: BrokerParts, request: ReadShareGroupStateSummaryRequest
) -> ReadShareGroupStateSummaryResponse:
    """Answer for the share partitions that this broker coordinates."""
    response = ReadShareGroupStateSummaryResponse()
    for topic in request.topics:
        answers = ReadStateSummaryResult(topic_id=topic.topic_id)
        response.results.append(answers)
        for data in topic.partitions:
            answer = PartitionResult(partition=data.partition)
            answers.partitions.append(answer)
            key = ShareKey(request.group_id, topic.topic_id, data.partition)
            try:
                state = broker.shares.coordinator.summary(key) or ShareState()
                answer.state_epoch, answer.leader_epoch = state.state_epoch, state.leader_epoch
                answer.start_offset = state.start_offset
                answer.delivery_complete_count = state.delivery_complete_count
            except KafkaError as error:
                answer.error_code, answer.error_message = error.code, error.message
    return response
