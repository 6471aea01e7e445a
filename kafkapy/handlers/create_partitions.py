"""CreatePartitions: add partitions to topics.

Versions: 0-3.

Behaviour:

- Only the controller adds partitions. Any other broker answers NOT_CONTROLLER for each topic.
- `count` is how many partitions the topic is to have.
- The new partitions are spread over the brokers, or get the replicas that the request assigns.
- The quota `controller_mutation_rate` may refuse a topic (THROTTLING_QUOTA_EXCEEDED, v3), or delay the
  client's next request (KIP-599).
- With `validate_only` nothing changes, but the quota.
- A topic that is named twice is refused.
- When the answer comes, the new partitions can be written to.

Version notes:

- v2 is flexible.
- v3 is the first version whose clients know THROTTLING_QUOTA_EXCEEDED.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkapy.controller.topic_plans import MorePartitions
from kafkapy.controller.topics import no_quota
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

FIRST_VERSION_WITH_QUOTA = 3


async def handle(context: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Add what can be added."""
    turns = context.broker.turns
    names = await turns.finish(counted(topic.name for topic in request.topics))
    results: dict[str, KafkaError | None]
    if not context.broker.admin.topics.is_controller:
        results = dict.fromkeys(names, KafkaError(ErrorCode.NOT_CONTROLLER))
        return await turns.finish(_response(dict.fromkeys(names, 1), results))
    wanted = await turns.finish(_wanted(context, request, names))
    quota = context.mutation_quota(FIRST_VERSION_WITH_QUOTA)
    try:
        results = await context.broker.admin.topics.create_partitions(
            wanted,
            validate_only=request.validate_only,
            seconds=request.timeout_ms / 1000,
            take=no_quota if quota is None else quota.take,
        )
    except KafkaError as error:
        results = {more.topic: error for more in wanted}
    response = await turns.finish(_response(names, results))
    response.throttle_time_ms = 0 if quota is None else quota.throttle_ms
    return response


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
