"""OffsetDelete: delete committed offsets of a group (KIP-496).

Versions: 0.

Behaviour:

- Topics that the group's members subscribe to keep their offsets (GROUP_SUBSCRIBED_TO_TOPIC).
- A group whose members do not use the protocol type `consumer` keeps all offsets (NON_EMPTY_GROUP), since
  their subscriptions are not known.
- A partition without an offset is deleted successfully.
"""

from __future__ import annotations

from collections.abc import Awaitable
from itertools import islice

from kafkapy.coordination.answer import Answer
from kafkapy.groups.offsets.writes import OFFSETS_AT_ONCE
from kafkapy.handlers.context import RequestContext
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kafkapy.protocol.types import TopicPartition


def handle(
    context: RequestContext, request: OffsetDeleteRequest
) -> Steps[OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]]:
    """Remove the offsets that may go."""
    groups = context.broker.groups
    image = context.broker.metadata.image
    try:
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        group = groups.require_group(request.group_id)
        group.validate_offset_delete()
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code)
    response = OffsetDeleteResponse()
    keys: set[TopicPartition] = set()
    for asked in request.topics:
        yield
        topic = OffsetDeleteResponseTopic(name=asked.name)
        response.topics.append(topic)
        for each in asked.partitions:
            yield
            index = each.partition_index
            error_code = ErrorCode.NONE
            if image.partition(asked.name, index) is None:
                error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif group.is_subscribed(asked.name):
                error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            else:
                keys.add(TopicPartition(asked.name, index))
            topic.partitions.append(
                OffsetDeleteResponsePartition(partition_index=index, error_code=error_code)
            )
    removed: Answer[OffsetDeleteResponse] = Answer()
    failed = ErrorCode.NONE
    waiting = 1

    def one_less(error: ErrorCode) -> None:
        nonlocal failed, waiting
        failed = failed or error
        waiting -= 1
        if not waiting:
            removed(response if failed is ErrorCode.NONE else OffsetDeleteResponse(error_code=failed))

    left = iter(keys)
    while part := list(islice(left, OFFSETS_AT_ONCE)):
        waiting += 1
        try:
            groups.delete_offsets(groups.require_group(request.group_id), part, one_less)
        except KafkaError as error:
            one_less(error.code)
            break
        yield
    one_less(ErrorCode.NONE)
    return removed.result()
