"""OffsetFetch: say how far groups have read.

Versions: 0-10.

Behaviour:

- A partition without a committed offset, of whatever topic, has offset -1. A group that does not exist has
  no offsets at all.
- A group that is named twice is answered once, as it is named first.
- Null topics mean all topics for which the group has offsets.
- Only offsets that are committed in the log are seen. There are no transactions that could leave one
  unstable.

Version notes:

- v0 once read from ZooKeeper. Here it is v1, except that a partition without an offset is
  UNKNOWN_TOPIC_OR_PARTITION. It creates the offsets topic where that is missing, since its clients never
  ask for a coordinator.
- v2 has an error for the whole group. Before it, every partition has the error.
- v5 adds the leader epoch.
- v7 can require stable offsets.
- v8 takes several groups.
- v9 adds the member of a newer kind of group, which is not looked at here.
- v10 names topics by id. An offset that was committed to an earlier topic of the same name does not count.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Mapping
from typing import Final

from kafkapy.groups.offsets import CommittedOffset
from kafkapy.handlers.context import RequestContext
from kafkapy.metadata.image import MetadataImage
from kafkapy.process.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kafkapy.protocol.types import TopicPartition

FIRST_VERSION_WITH_GROUP_ERROR: Final = 2
FIRST_VERSION_WITH_GROUPS: Final = 8
FIRST_VERSION_WITH_TOPIC_IDS: Final = 10
NO_OFFSET: Final = -1

Committed = Mapping[TopicPartition, CommittedOffset]


def handle(
    context: RequestContext, request: OffsetFetchRequest
) -> Steps[OffsetFetchResponse] | Awaitable[OffsetFetchResponse]:
    """Answer for each group."""
    if context.api_version == 0 and not context.broker.groups.runtime.has_topic:
        return _create_topic_and_answer(context, request)
    return _answer(context, request)


async def _create_topic_and_answer(
    context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse:
    with contextlib.suppress(KafkaError):  # without a topic, the answer says what is wrong
        await context.broker.groups.runtime.ensure_topic()
    return await context.broker.turns.finish(_answer(context, request))


def _answer(context: RequestContext, request: OffsetFetchRequest) -> Steps[OffsetFetchResponse]:
    if context.api_version >= FIRST_VERSION_WITH_GROUPS:
        groups = []
        named: dict[str, OffsetFetchRequestGroup] = {}
        for asked in request.groups:
            named.setdefault(asked.group_id, asked)
        for asked in named.values():
            answered = yield from _group(context, asked)
            groups.append(answered)
        return OffsetFetchResponse(groups=groups)
    topics = request.topics
    group = OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in topics
        ],
    )
    answered = yield from _group(context, group)
    return (yield from _single(answered, group, context.api_version))


def _group(context: RequestContext, asked: OffsetFetchRequestGroup) -> Steps[OffsetFetchResponseGroup]:
    yield
    groups = context.broker.groups
    image = context.broker.metadata.image
    by_id = context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    try:
        groups.runtime.require_active(asked.group_id)
    except KafkaError as error:
        return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error.code)
    committed = groups.offsets.of_group(asked.group_id)
    if asked.topics is None:
        topics = yield from _all_topics(image, dict(committed), by_id)
    else:
        topics = []
        for topic in asked.topics:
            answered = yield from _topic(image, committed, topic, by_id)
            topics.append(answered)
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics)


def _topic(
    image: MetadataImage, committed: Committed, asked: OffsetFetchRequestTopics, by_id: bool
) -> Steps[OffsetFetchResponseTopics]:
    name = image.topic_name(asked.topic_id) if by_id else asked.name
    partitions = []
    for index in asked.partition_indexes:
        yield
        if name is None:
            partitions.append(_partition(index, None, ErrorCode.UNKNOWN_TOPIC_ID))
            continue
        offset = committed.get(TopicPartition(name, index))
        if offset is not None and by_id and not offset.is_of_topic(asked.topic_id):
            offset = None
        partitions.append(_partition(index, offset))
    return OffsetFetchResponseTopics(name=asked.name, topic_id=asked.topic_id, partitions=partitions)


def _all_topics(
    image: MetadataImage, committed: Committed, by_id: bool
) -> Steps[list[OffsetFetchResponseTopics]]:
    topics: dict[str, OffsetFetchResponseTopics] = {}
    for (name, index), offset in committed.items():
        yield
        known = image.topics.get(name)
        if by_id and (known is None or not offset.is_of_topic(known.id)):
            continue
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = OffsetFetchResponseTopics(name=name)
            if known is not None:
                topic.topic_id = known.id
        topic.partitions.append(_partition(index, offset))
    return list(topics.values())


def _partition(
    index: int, committed: CommittedOffset | None, error: ErrorCode = ErrorCode.NONE
) -> OffsetFetchResponsePartitions:
    if committed is None:
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=error
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=error,
    )


def _single(
    group: OffsetFetchResponseGroup, asked: OffsetFetchRequestGroup, version: int
) -> Steps[OffsetFetchResponse]:
    """The answer for the one group of v0-v7."""
    error, topics = ErrorCode(group.error_code), []
    if error and version < FIRST_VERSION_WITH_GROUP_ERROR:
        for topic in asked.topics or ():
            refused = []
            for index in topic.partition_indexes:
                yield
                refused.append(_old_partition(_partition(index, None, error), version))
            topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=refused))
    for found in group.topics:
        partitions = []
        for each in found.partitions:
            yield
            partitions.append(_old_partition(each, version))
        topics.append(OffsetFetchResponseTopic(name=found.name, partitions=partitions))
    return OffsetFetchResponse(error_code=error, topics=topics)


def _old_partition(each: OffsetFetchResponsePartitions, version: int) -> OffsetFetchResponsePartition:
    error = each.error_code
    if version == 0 and each.committed_offset == NO_OFFSET and not error:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetFetchResponsePartition(
        partition_index=each.partition_index,
        committed_offset=each.committed_offset,
        committed_leader_epoch=each.committed_leader_epoch,
        metadata=each.metadata,
        error_code=error,
    )
