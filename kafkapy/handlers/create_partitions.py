"""CreatePartitions: add partitions to topics.

Versions: 0-3.

Behaviour:

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

from collections import Counter

from kafkapy.controller.topic_plans import MorePartitions
from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)


async def handle(context: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Add what can be added."""
    names = Counter(topic.name for topic in request.topics)
    wanted = [
        MorePartitions(
            topic.name,
            topic.count,
            None if topic.assignments is None else [each.broker_ids for each in topic.assignments],
        )
        for topic in request.topics
        if names[topic.name] == 1
    ]
    results: dict[str, KafkaError | None]
    try:
        results = await context.broker.admin.topics.create_partitions(
            wanted, validate_only=request.validate_only
        )
    except KafkaError as error:
        results = {more.topic: error for more in wanted}
    duplicate = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    return CreatePartitionsResponse(
        results=[_result(name, duplicate if count > 1 else results[name]) for name, count in names.items()]
    )


def _result(name: str, error: KafkaError | None) -> CreatePartitionsTopicResult:
    if error is None:
        return CreatePartitionsTopicResult(name=name)
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.message)
