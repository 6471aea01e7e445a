"""OffsetFetch: return the committed offsets of groups.

Versions: 0-10.

Behaviour:

- A partition without a committed offset, of whatever topic, has offset -1. A group that does not exist has
  no offsets at all.
- A group that is named twice is answered once, as it is named first. So is a partition of a group.
- Null topics mean all topics for which the group has offsets, in the order of Apache Kafka's hash tables
  (`hash_order.py`).
- A member of a consumer group must be one, and give its epoch: STALE_MEMBER_EPOCH otherwise.
- Only offsets that are committed in the log are seen, and of a transaction only after its commit marker.
- A client that requires stable offsets gets UNSTABLE_OFFSET_COMMIT for the partitions whose offset an open
  transaction has set.

Version notes:

- v0 reads from the metadata tree, as Apache Kafka 3 does in ZooKeeper mode: any broker of a cluster answers
  it. A broker alone has no ZooKeeper, and answers it as v1. It creates the offsets topic where that is
  missing, since its clients never ask for a coordinator. In both, a partition without an offset is
  UNKNOWN_TOPIC_OR_PARTITION. (Apache Kafka 4 has no v0.)
- v2 has an error for all of the group. Before it, every partition has the error.
- v5 adds the leader epoch.
- v7 can require stable offsets.
- v8 takes several groups.
- v9 adds the member of a consumer group.
- v10 names topics by id. Those that are unknown come last. An offset that was committed to an earlier topic
  of the same name does not count.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Mapping, Set
from typing import Final

from kafkapy.groups.offsets.committed_offset import CommittedOffset, EncodedOffset, decode_offset
from kafkapy.groups.offsets.zookeeper import ZooKeeperOffsets
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.hash_order import in_hash_order, names_in_hash_order
from kafkapy.handlers.per_partition import answer_by_topic, answer_partitions, visit_each
from kafkapy.loop.turns import Steps
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
from kafkapy.protocol.types import ZERO_UUID, TopicPartition, Uuid
from kafkapy.security.acls.model import Operation, ResourceType

FIRST_VERSION_WITH_GROUP_ERROR: Final = 2
FIRST_VERSION_WITH_GROUPS: Final = 8
FIRST_VERSION_WITH_TOPIC_IDS: Final = 10
NO_OFFSET: Final = -1
VALUES: Final = 5
"""The values of a partition in an answer."""

Committed = Mapping[TopicPartition, EncodedOffset]


def handle(
    context: RequestContext, request: OffsetFetchRequest
) -> Steps[OffsetFetchResponse] | Awaitable[OffsetFetchResponse]:
    """Answer for each group."""
    if context.api_version == 0 and context.broker.zookeeper_offsets is not None:
        return _read_from_tree(context, context.broker.zookeeper_offsets, request)
    may_see = context.may(Operation.DESCRIBE, ResourceType.GROUP, request.group_id)
    if context.api_version == 0 and not context.broker.groups.runtime.has_topic and may_see:
        return _create_topic_and_answer(context, request)
    return _answer(context, request)


async def _create_topic_and_answer(
    context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse:
    with contextlib.suppress(KafkaError):  # without a topic, the answer says what is wrong
        await context.broker.groups.runtime.ensure_topic()
    return await context.broker.turns.finish(_answer(context, request))


async def _read_from_tree(
    context: RequestContext, offsets: ZooKeeperOffsets, request: OffsetFetchRequest
) -> OffsetFetchResponse:
    """Read the offsets of v0 from the metadata tree."""
    image = context.broker.metadata.image
    asked: dict[str, dict[int, None]] = {}
    errors: dict[str, ErrorCode] = {}
    """Why the client may not see the offsets of a topic, by name."""
    may_see = context.may(Operation.DESCRIBE, ResourceType.GROUP, request.group_id)
    keys: list[TopicPartition] = []
    turn = context.broker.turns.begin()
    for topic in request.topics or ():
        if turn.is_over():
            await turn.end()
        indexes = asked.setdefault(topic.name, {})
        if not may_see:
            errors[topic.name] = ErrorCode.GROUP_AUTHORIZATION_FAILED
        elif not context.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            errors[topic.name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for index in topic.partition_indexes:
            if turn.is_over():
                await turn.end()
            if index not in indexes and image.partition(topic.name, index) is not None:
                keys.append(TopicPartition(topic.name, index))
            indexes[index] = None
    found: Mapping[TopicPartition, int | ErrorCode | None]
    try:
        found = await offsets.fetch(request.group_id, keys)
    except KafkaError as error:
        found = dict.fromkeys(keys, error.code)

    def partition(key: TopicPartition) -> OffsetFetchResponsePartition:
        offset = errors.get(key.topic, found.get(key))
        if offset is None:
            offset = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        failed = isinstance(offset, ErrorCode)
        return OffsetFetchResponsePartition(
            partition_index=key.partition,
            committed_offset=NO_OFFSET if failed else offset,
            metadata="",
            error_code=offset if failed else ErrorCode.NONE,
        )

    response = OffsetFetchResponse()
    turn = context.broker.turns.begin()
    for name, indexes in asked.items():
        if turn.is_over():
            await turn.end()
        answer = OffsetFetchResponseTopic(name=name)
        response.topics.append(answer)
        for index in indexes:
            if turn.is_over():
                await turn.end()
            answer.partitions.append(partition(TopicPartition(name, index)))
    return response


def _answer(context: RequestContext, request: OffsetFetchRequest) -> Steps[OffsetFetchResponse]:
    # The loops over what is named are written out, down to the partitions: a call for each would make the
    # answer for a partition a seventh dearer, and that for a group of one partition a quarter.
    if context.api_version >= FIRST_VERSION_WITH_GROUPS:
        groups = []
        named: dict[str, OffsetFetchRequestGroup] = {}
        for asked in request.groups:
            yield
            named.setdefault(asked.group_id, asked)
        for asked in named.values():
            answered = yield from _group(context, asked, require_stable=request.require_stable)
            groups.append(answered)
        return OffsetFetchResponse(groups=groups)
    topics = request.topics
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=None)
    if topics is not None:
        group.topics = named_topics = []
        for topic in topics:
            yield
            named_topics.append(
                OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            )
    answered = yield from _group(context, group, require_stable=request.require_stable)
    return (yield from _single(answered, group, context.api_version))


def _group(
    context: RequestContext, asked: OffsetFetchRequestGroup, *, require_stable: bool
) -> Steps[OffsetFetchResponseGroup]:
    yield
    try:
        topics = yield from _topics(context, asked, require_stable=require_stable)
    except KafkaError as error:
        return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error.code)
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics)


def _topics(
    context: RequestContext, asked: OffsetFetchRequestGroup, *, require_stable: bool
) -> Steps[list[OffsetFetchResponseTopics]]:
    context.require(Operation.DESCRIBE, ResourceType.GROUP, asked.group_id)
    groups = context.broker.groups
    image = context.broker.metadata.image
    by_id = context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    groups.runtime.require_active(asked.group_id)
    group = groups.groups.get(asked.group_id)
    if group is not None:
        group.validate_offset_fetch(asked.member_id, asked.member_epoch)
    committed = groups.offsets.of_group(asked.group_id)
    if require_stable:
        undecided = frozenset(groups.offsets.pending.keys(asked.group_id))
    else:
        undecided = frozenset()
    if asked.topics is None:
        return (yield from _all_topics(context, dict(committed), undecided, by_id))
    topics: list[OffsetFetchResponseTopics] = []
    refused: list[OffsetFetchResponseTopics] = []
    """Apache Kafka answers what it does not know, or may not show, after all others."""
    answered_before: dict[tuple[str, Uuid], set[int]] = {}
    for topic in asked.topics:
        yield
        seen = answered_before.setdefault((topic.name, topic.topic_id), set())
        name = image.topic_name(topic.topic_id) if by_id else topic.name
        error = ErrorCode.NONE
        if name is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
        elif not context.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        answered = yield from _topic(context, committed, undecided, topic, name or "", error, seen)
        (refused if error else topics).append(answered)
    return topics + refused


def _topic(
    context: RequestContext,
    committed: Committed,
    undecided: Set[TopicPartition],
    asked: OffsetFetchRequestTopics,
    name: str,
    error: ErrorCode,
    seen: set[int],
) -> Steps[OffsetFetchResponseTopics]:
    by_id = context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    partitions = []
    nbytes = 0
    for index in asked.partition_indexes:
        yield
        if index in seen:
            continue
        seen.add(index)
        if error:
            partitions.append(_partition(index, None, error))
            continue
        key = TopicPartition(name, index)
        if key in undecided:
            partitions.append(_partition(index, None, ErrorCode.UNSTABLE_OFFSET_COMMIT))
            continue
        encoded = committed.get(key)
        offset = None
        if encoded is not None:
            offset = decode_offset(encoded)
            nbytes += len(encoded)
        if offset is not None and by_id and not offset.is_of_topic(asked.topic_id):
            offset = None
        partitions.append(_partition(index, offset))
    context.charge(VALUES * len(partitions), nbytes, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return OffsetFetchResponseTopics(name=asked.name, topic_id=asked.topic_id, partitions=partitions)


def _all_topics(
    context: RequestContext, committed: Committed, undecided: Set[TopicPartition], by_id: bool
) -> Steps[list[OffsetFetchResponseTopics]]:
    image = context.broker.metadata.image
    by_topic: dict[str, list[int]] = {}
    yield from visit_each(committed, lambda key: by_topic.setdefault(key.topic, []).append(key.partition))
    keys: list[TopicPartition] = []
    for name in (yield from names_in_hash_order(by_topic)):
        if not context.may(Operation.DESCRIBE, ResourceType.TOPIC, name, log_if_denied=False):
            continue
        indexes = yield from in_hash_order(by_topic[name], int)
        keys += (TopicPartition(name, index) for index in indexes)

    def answer(key: TopicPartition) -> tuple[str, OffsetFetchResponsePartitions] | None:
        name, index = key
        context.charge(VALUES, len(committed[key]), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        offset = decode_offset(committed[key])
        known = image.topics.get(name)
        if by_id and (known is None or not offset.is_of_topic(known.id)):
            return None
        if key in undecided:
            return name, _partition(index, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        return name, _partition(index, offset)

    def of_topic(name: str, answers: list[OffsetFetchResponsePartitions]) -> OffsetFetchResponseTopics:
        known = image.topics.get(name)
        topic_id = ZERO_UUID if known is None else known.id
        return OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=answers)

    return (yield from answer_by_topic(keys, answer, of_topic))


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
    error = ErrorCode(group.error_code)
    if error and version < FIRST_VERSION_WITH_GROUP_ERROR:
        refused = yield from answer_partitions(
            asked.topics or (),
            lambda topic: topic.partition_indexes,
            lambda _, index: _old_partition(_partition(index, None, error), version),
            lambda topic, answers: OffsetFetchResponseTopic(name=topic.name, partitions=answers),
        )
        return OffsetFetchResponse(error_code=error, topics=refused)
    topics = yield from answer_partitions(
        group.topics,
        lambda topic: topic.partitions,
        lambda _, each: _old_partition(each, version),
        lambda topic, answers: OffsetFetchResponseTopic(name=topic.name, partitions=answers),
    )
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
