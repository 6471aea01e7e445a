"""ReadShareGroupState: read the states of share partitions (KIP-932).

Versions: 0.

Behaviour:

- The leader of a partition asks this of a share coordinator (`kafkapy.share.share_coordinator`).
- Its leader epoch is noted, so that earlier leaders are fenced. A lower one is FENCED_LEADER_EPOCH.
"""

from __future__ import annotations

from kafkapy.handlers.context import BrokerParts, RequestContext
from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.messages.read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)
from kafkapy.share.state_records import ShareKey


async def handle(context: RequestContext, request: ReadShareGroupStateRequest) -> ReadShareGroupStateResponse:
    """Answer each share partition on its own."""
    return await answer_own(context.broker, request)


async def answer_own(broker: BrokerParts, request: ReadShareGroupStateRequest) -> ReadShareGroupStateResponse:
    """Answer for the share partitions that this broker coordinates."""
    response = ReadShareGroupStateResponse()
    for topic in request.topics:
        answers = ReadStateResult(topic_id=topic.topic_id)
        response.results.append(answers)
        for data in topic.partitions:
            answer = PartitionResult(partition=data.partition)
            answers.partitions.append(answer)
            key = ShareKey(request.group_id, topic.topic_id, data.partition)
            try:
                state = await broker.shares.coordinator.read(key, data.leader_epoch)
                answer.state_epoch, answer.start_offset = state.state_epoch, state.start_offset
                answer.state_batches = [
                    StateBatch(
                        first_offset=first, last_offset=last, delivery_state=number, delivery_count=count
                    )
                    for first, last, number, count in state.batches
                ]
            except KafkaError as error:
                answer.error_code, answer.error_message = error.code, error.message
    return response
