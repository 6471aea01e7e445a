"""DeleteShareGroupState: forget the states of share partitions (KIP-932).

Versions: 0.

Behaviour:

- A group coordinator asks this of a share coordinator (`kafkapy.share.share_coordinator`).
- A state that does not exist is not an error.
"""

from __future__ import annotations

from kafkapy.handlers.context import BrokerParts, RequestContext
from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)
from kafkapy.share.state_records import ShareKey


async def handle(
    context: RequestContext, request: DeleteShareGroupStateRequest
) -> DeleteShareGroupStateResponse:
    """Answer each share partition on its own."""
    return await answer_own(context.broker, request)


async def answer_own(
    broker: BrokerParts, request: DeleteShareGroupStateRequest
) -> DeleteShareGroupStateResponse:
    """Answer for the share partitions that this broker coordinates."""
    response = DeleteShareGroupStateResponse()
    for topic in request.topics:
        answers = DeleteStateResult(topic_id=topic.topic_id)
        response.results.append(answers)
        for data in topic.partitions:
            answer = PartitionResult(partition=data.partition)
            answers.partitions.append(answer)
            key = ShareKey(request.group_id, topic.topic_id, data.partition)
            try:
                await broker.shares.coordinator.delete(key)
            except KafkaError as error:
                answer.error_code, answer.error_message = error.code, error.message
    return response
