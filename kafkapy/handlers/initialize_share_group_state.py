"""InitializeShareGroupState: let the states of share partitions begin (KIP-932).

Versions: 0.

Behaviour:

- A group coordinator asks this of a share coordinator (`kafkapy.share.share_coordinator`).
- What was known of the share partition before is forgotten. A lower state epoch is FENCED_STATE_EPOCH.
"""

from __future__ import annotations

from kafkapy.handlers.context import BrokerParts, RequestContext
from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)
from kafkapy.share.state_records import ShareKey


async def handle(
    context: RequestContext, request: InitializeShareGroupStateRequest
) -> InitializeShareGroupStateResponse:
    """Answer each share partition on its own."""
    return await answer_own(context.broker, request)


async def answer_own(
    broker: BrokerParts, request: InitializeShareGroupStateRequest
) -> InitializeShareGroupStateResponse:
    """Answer for the share partitions that this broker coordinates."""
    response = InitializeShareGroupStateResponse()
    for topic in request.topics:
        answers = InitializeStateResult(topic_id=topic.topic_id)
        response.results.append(answers)
        for data in topic.partitions:
            answer = PartitionResult(partition=data.partition)
            answers.partitions.append(answer)
            key = ShareKey(request.group_id, topic.topic_id, data.partition)
            try:
                await broker.shares.coordinator.initialize(key, data)
            except KafkaError as error:
                answer.error_code, answer.error_message = error.code, error.message
    return response
