"""WriteShareGroupState: store what the leader of a partition decided (KIP-932).

Versions: 0-1.

Behaviour:

- The leader of a partition asks this of a share coordinator (`kafkapy.share.share_coordinator`).
- The answer waits until it is committed.
- A lower leader epoch is FENCED_LEADER_EPOCH, and a lower state epoch FENCED_STATE_EPOCH.

Version notes:

- v1 adds how many records need no delivery any more.
"""

from __future__ import annotations

from kafkapy.handlers.context import BrokerParts, RequestContext
from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.messages.write_share_group_state import (
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
    return await answer_own(context.broker, request)


async def answer_own(
    broker: BrokerParts, request: WriteShareGroupStateRequest
) -> WriteShareGroupStateResponse:
    """Answer for the share partitions that this broker coordinates."""
    response = WriteShareGroupStateResponse()
    for topic in request.topics:
        answers = WriteStateResult(topic_id=topic.topic_id)
        response.results.append(answers)
        for data in topic.partitions:
            answer = PartitionResult(partition=data.partition)
            answers.partitions.append(answer)
            key = ShareKey(request.group_id, topic.topic_id, data.partition)
            try:
                await broker.shares.coordinator.write(key, data)
            except KafkaError as error:
                answer.error_code, answer.error_message = error.code, error.message
    return response
