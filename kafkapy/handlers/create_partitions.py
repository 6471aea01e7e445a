"""CreatePartitions: add partitions to topics.

Versions: 0-3.

Behaviour:

- Only the controller adds partitions. Any other broker answers NOT_CONTROLLER for each topic.
- `count` is how many partitions the topic is to have.
- The new partitions are spread over the brokers, or get the replicas that the request assigns.
- With `validate_only` nothing changes.
- A topic that is named twice is refused.
- When the answer comes, the new partitions can be written to.

Version notes:

- v2 is flexible.
- v3 lets a quota refuse the request. There is none here.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkapy.controller.topic_plans import MorePartitions
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_each
from kafkapy.loop.turns import Steps, counted
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kafkapy.security.acls.model import Operation, ResourceType


async def handle(context: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Add what can be added."""
    turns = context.broker.turns
    names = await turns.finish(counted(topic.name for topic in request.topics))
    results: dict[str, KafkaError | None]
    if not context.broker.admin.topics.is_controller:
        results = dict.fromkeys(names, KafkaError(ErrorCode.NOT_CONTROLLER))
        return await turns.finish(_response(dict.fromkeys(names, 1), results))
    wanted = await turns.finish(_wanted(context, request, names))
    try:
        results = await context.broker.admin.topics.create_partitions(
            wanted, validate_only=request.validate_only, seconds=request.timeout_ms / 1000
        )
    except KafkaError as error:
        results = {more.topic: error for more in wanted}
    return await turns.finish(_response(names, results))


def _wanted(
    context: RequestContext, request: CreatePartitionsRequest, names: Mapping[str, int]
) -> Steps[list[MorePartitions]]:
    """The requests for topics that are named once, and that the client may alter."""

    def more(topic: CreatePartitionsTopic) -> MorePartitions | None:
        if names[topic.name] > 1 or not context.may(Operation.ALTER, ResourceType.TOPIC, topic.name):
            return None
        assignments = topic.assignments
        replicas = None if assignments is None else [each.broker_ids for each in assignments]
        return MorePartitions(topic.name, topic.count, replicas)

    return answer_each(request.topics, more)


def _response(
    names: Mapping[str, int], results: Mapping[str, KafkaError | None]
) -> Steps[CreatePartitionsResponse]:
    duplicate = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    refused = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    answers = yield from answer_each(
        names, lambda name: _result(name, duplicate if names[name] > 1 else results.get(name, refused))
    )
    return CreatePartitionsResponse(results=answers)


def _result(name: str, error: KafkaError | None) -> CreatePartitionsTopicResult:
    if error is None:
        return CreatePartitionsTopicResult(name=name)
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.message)
