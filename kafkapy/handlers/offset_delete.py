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

from kafkapy.coordination.answer import Answer, Join
from kafkapy.groups.offsets.writes import OFFSETS_AT_ONCE
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_partitions, visit_each
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kafkapy.protocol.types import TopicPartition
from kafkapy.security.acls.model import Operation, ResourceType


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

    def check(
        topic: OffsetDeleteRequestTopic, each: OffsetDeleteRequestPartition
    ) -> OffsetDeleteResponsePartition:
        index = each.partition_index
        error_code = ErrorCode.NONE
        if not context.may(Operation.READ, ResourceType.TOPIC, topic.name):
            error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif image.partition(topic.name, index) is None:
            error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif group.is_subscribed(topic.name):
            error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        else:
            keys.add(TopicPartition(topic.name, index))
        return OffsetDeleteResponsePartition(partition_index=index, error_code=error_code)

    response.topics = yield from answer_partitions(
        request.topics,
        lambda topic: topic.partitions,
        check,
        lambda topic, answers: OffsetDeleteResponseTopic(name=topic.name, partitions=answers),
    )
    removed: Answer[OffsetDeleteResponse] = Answer()
    failed = ErrorCode.NONE
    join = Join(lambda: removed(OffsetDeleteResponse(error_code=failed) if failed else response))

    def part_removed(error: ErrorCode) -> None:
        nonlocal failed
        failed = failed or error
        join.end()

    left = iter(keys)

    def remove(part: list[TopicPartition]) -> None:
        if failed:
            return
        join.begin()
        try:
            groups.require_group(request.group_id)
            groups.writes.delete(request.group_id, part, part_removed)
        except KafkaError as error:
            part_removed(error.code)

    yield from visit_each(iter(lambda: list(islice(left, OFFSETS_AT_ONCE)), []), remove)
    join.close()
    return removed.result()
