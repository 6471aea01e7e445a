"""OffsetCommit: store the offsets of a group.

Versions: 0-10.

Behaviour:

- Topics and partitions must exist. Where a partition is named twice, the last offset counts.
- A member commits with its id and generation. A consumer that assigns partitions to itself commits with
  generation -1, which is accepted as long as the group has no members.
- The accepted offsets of a request are written together; more than 500 are written in parts. They are
  answered when they are committed: with `durability=fsync` they are on disk.
- A plain commit takes fewer steps (`_store_plain`): it has few offsets, without metadata. Most are plain.
- A commit extends the session of a classic member, as a heartbeat does.
- A member of a consumer group commits with its epoch. With an older one it may commit the partitions that it
  has had since (KIP-1251), and otherwise gets STALE_MEMBER_EPOCH.

Version notes:

- v0 stores offsets in the metadata tree, as Apache Kafka 3 does in ZooKeeper mode: any broker of a cluster
  takes it, for any group, and metadata is not kept. A group whose name cannot be that of a node is
  INVALID_GROUP_ID (UNKNOWN_SERVER_ERROR in Apache Kafka). A broker alone has no ZooKeeper, and takes it as v1
  without a member. It creates the offsets topic where that is missing, since its clients never ask for a
  coordinator. (Apache Kafka 4 has no v0.)
- v1 is the only version that gives timestamps.
- v2-4 are the only versions that say how long the offsets are to be kept.
- v6 adds the leader epoch.
- v7 adds static membership.
- v9 answers GROUP_ID_NOT_FOUND for an unknown group. Before it, the answer is ILLEGAL_GENERATION.
- v10 names topics by id (KIP-848).
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Iterable, Mapping
from functools import lru_cache
from itertools import groupby, islice
from typing import Any, Final

from kafkapy.coordination.answer import Answer
from kafkapy.coordination.pending_write import PendingWrite
from kafkapy.groups.coordinator import GroupCoordinator
from kafkapy.groups.offsets.committed_offset import (
    NO_EXPIRY,
    OFFSET_VERSION,
    EncodedOffset,
    encode_offset,
    encode_plain,
    encode_plain_tail,
)
from kafkapy.groups.offsets.offsets import partitions_of
from kafkapy.groups.offsets.writes import OFFSETS_AT_ONCE
from kafkapy.groups.offsets.zookeeper import ZooKeeperOffsets
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.existing_partitions import existing_partitions, find_partition
from kafkapy.loop.turns import Steps, at_once
from kafkapy.metadata.image import MetadataImage
from kafkapy.protocol.codec import encode
from kafkapy.protocol.errors import NONE, ErrorCode, KafkaError
from kafkapy.protocol.frames import response_frame
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafkapy.protocol.types import Part, TopicPartition, Uuid

VERSION_WITH_TIMESTAMPS: Final = 1
FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND: Final = 9
FIRST_VERSION_WITH_TOPIC_IDS: Final = 10
UNSET: Final = -1
CHECKED_AT_ONCE: Final = 100
"""The offsets that are looked at before other requests may be served: they take a tenth of a millisecond."""


class _Accepted(dict[int, OffsetCommitResponsePartition]):
    """The results of accepted partitions by number, which answers share: nobody changes them.

    There are at most as many as a topic has partitions, since only offsets of these are accepted.
    """

    def __missing__(self, index: int) -> OffsetCommitResponsePartition:
        self[index] = result = OffsetCommitResponsePartition(partition_index=index)
        return result


_ACCEPTED: Final = _Accepted()

Commits = dict[TopicPartition, EncodedOffset]

Stored = OffsetCommitResponse | Awaitable[OffsetCommitResponse]


def handle(context: RequestContext, request: OffsetCommitRequest) -> list[Part] | Steps[Stored] | Stored:
    """Store the offsets that are acceptable."""
    if context.api_version == 0 and context.broker.zookeeper_offsets is not None:
        return _store_in_tree(context, context.broker.zookeeper_offsets, request)
    if context.api_version == 0 and not context.broker.groups.runtime.has_topic:
        return _create_topic_and_store(context, request)
    return _store_plain(context, request) or _store(context, request)


async def _create_topic_and_store(
    context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse:
    with contextlib.suppress(KafkaError):  # without a topic, storing says what is wrong
        await context.broker.groups.runtime.ensure_topic()
    stored = await context.broker.turns.finish(_store(context, request))
    return stored if isinstance(stored, OffsetCommitResponse) else await stored


async def _store_in_tree(
    context: RequestContext, offsets: ZooKeeperOffsets, request: OffsetCommitRequest
) -> OffsetCommitResponse:
    """Store the offsets of v0 in the metadata tree."""
    image = context.broker.metadata.image
    max_metadata = context.broker.groups.config.offset_metadata_max_bytes
    response = OffsetCommitResponse()
    accepted: list[tuple[TopicPartition, OffsetCommitResponsePartition]] = []
    commits: dict[TopicPartition, int] = {}
    turn = context.broker.turns.begin()
    for topic in request.topics:
        answer = OffsetCommitResponseTopic(name=topic.name)
        response.topics.append(answer)
        if turn.is_over():
            await turn.end()
        for each in topic.partitions:
            if turn.is_over():
                await turn.end()
            result = OffsetCommitResponsePartition(partition_index=each.partition_index)
            answer.partitions.append(result)
            if image.partition(topic.name, each.partition_index) is None:
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif len(each.committed_metadata or "") > max_metadata:
                result.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                key = TopicPartition(topic.name, each.partition_index)
                commits[key] = each.committed_offset
                accepted.append((key, result))
    try:
        errors = await offsets.commit(request.group_id, commits)
    except KafkaError as error:
        errors = dict.fromkeys(commits, error.code)
    for key, result in accepted:
        result.error_code = errors[key]
    return response


def _store_plain(
    context: RequestContext, request: OffsetCommitRequest
) -> list[Part] | Steps[OffsetCommitResponse] | Stored | None:
    """Store a plain commit in fewer steps than `_store`; None if it is not plain.

    Most commits are plain: of a few partitions, which exist, each named once, without metadata or times.
    """
    version = context.api_version
    if request.retention_time_ms != UNSET or version == VERSION_WITH_TIMESTAMPS:
        return None
    broker = context.broker
    image, now = broker.metadata.image, broker.clock.now_ms()
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    topic_ids: dict[Uuid, None] = {}
    commits: Commits = {}
    count = 0
    for asked in request.topics:
        partitions = asked.partitions
        count += len(partitions)
        topic = image.topics_by_id.get(asked.topic_id) if by_id else image.topics.get(asked.name)
        if topic is None or not partitions or count > CHECKED_AT_ONCE:
            return None
        topic_ids[topic.id] = None
        existing, tail = existing_partitions(topic), encode_plain_tail(now, topic.id)
        for each in partitions:
            key = existing.get(each.partition_index) or find_partition(topic, each.partition_index)
            if key is None or each.committed_metadata:
                return None
            commits[key] = encode_plain(
                OFFSET_VERSION, each.committed_offset, each.committed_leader_epoch, tail
            )
    if not count or len(commits) < count or len(topic_ids) < len(request.topics):
        return None
    if (refusal := _refusal(context, request, image, commits)) is not None:
        return _refused_by_group(_all_stored(topic_ids, commits), refusal)
    groups = broker.groups
    outcome = groups.commit_offsets(request.group_id, commits)
    if outcome is NONE:
        body = _all_stored_encoded(version, tuple(topic_ids), tuple(commits))
        return [response_frame(context.api_key, version, context.correlation_id, body)]
    return _when_stored(groups, outcome, image, commits, _all_stored(topic_ids, commits))


def _all_stored(topic_ids: Iterable[Uuid], keys: Iterable[TopicPartition]) -> OffsetCommitResponse:
    """The answer when all offsets are stored: those of the first topic, then those of the next."""
    response = OffsetCommitResponse()
    for topic_id, (name, of_topic) in zip(topic_ids, groupby(keys, lambda key: key.topic), strict=True):
        results = [_ACCEPTED[key.partition] for key in of_topic]
        response.topics.append(OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=results))
    return response


@lru_cache(maxsize=1000)
def _all_stored_encoded(version: int, topic_ids: tuple[Uuid, ...], keys: tuple[TopicPartition, ...]) -> bytes:
    """The bytes of `_all_stored`.

    They are kept, since a consumer commits offsets of the same partitions again and again.
    """
    return encode(_all_stored(topic_ids, keys), version)


def _store(context: RequestContext, request: OffsetCommitRequest) -> Steps[Stored]:
    groups = context.broker.groups
    image = context.broker.metadata.image
    by_id = context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    max_metadata = groups.config.offset_metadata_max_bytes
    now = context.broker.clock.now_ms()
    retention = request.retention_time_ms
    expire_timestamp = NO_EXPIRY if retention == UNSET else now + retention
    gives_times = retention != UNSET or context.api_version == VERSION_WITH_TIMESTAMPS
    commits: Commits = {}
    has_too_large = False
    response = OffsetCommitResponse()
    for asked in request.topics:
        if response.topics:
            yield
        answer = OffsetCommitResponseTopic()
        answer.name, answer.topic_id, results = asked.name, asked.topic_id, answer.partitions
        response.topics.append(answer)
        partitions = asked.partitions
        topic = image.topics_by_id.get(asked.topic_id) if by_id else image.topics.get(asked.name)
        if topic is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for number, each in enumerate(partitions):
                if number and number % CHECKED_AT_ONCE == 0:
                    yield
                results.append(_refused(each.partition_index, unknown))
            continue
        topic_id, states, names = topic.id, topic.partitions, partitions_of(topic.name)
        tail, count = encode_plain_tail(now, topic_id), len(states)
        for start in range(0, len(partitions), CHECKED_AT_ONCE):
            if start:
                yield
            for each in partitions[start : start + CHECKED_AT_ONCE]:
                index, metadata = each.partition_index, each.committed_metadata
                if not 0 <= index < count or not states[index].replicas:  # does not exist (PartitionState)
                    results.append(_refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                    continue
                if not metadata and not gives_times:
                    offset = encode_plain(
                        OFFSET_VERSION, each.committed_offset, each.committed_leader_epoch, tail
                    )
                elif metadata and len(metadata) > max_metadata:
                    has_too_large = True
                    results.append(_refused(index, ErrorCode.OFFSET_METADATA_TOO_LARGE))
                    continue
                else:
                    offset = encode_offset(
                        each.committed_offset,
                        each.committed_leader_epoch,
                        metadata or "",
                        now if each.commit_timestamp == UNSET else each.commit_timestamp,
                        expire_timestamp,
                        topic_id,
                    )
                commits[names[index]] = offset
                results.append(_ACCEPTED[index])
    if len(commits) > OFFSETS_AT_ONCE:
        return (yield from _commit_in_parts(context, request, image, commits, response))
    if not commits and not has_too_large:
        return response
    if (refusal := _refusal(context, request, image, commits)) is not None:
        return (yield from _refused_by_group(response, refusal))
    if not commits:
        return response
    outcome = groups.commit_offsets(request.group_id, commits)
    return response if outcome is NONE else _when_stored(groups, outcome, image, commits, response)


def _when_stored(
    groups: GroupCoordinator,
    outcome: ErrorCode | PendingWrite[Any],
    image: MetadataImage,
    commits: Commits,
    response: OffsetCommitResponse,
) -> Stored:
    """Answer when the outcome of a write is known."""
    stored: Answer[OffsetCommitResponse] = Answer()

    def done(error: ErrorCode) -> None:
        stored(at_once(_failed(response, image, dict.fromkeys(commits, error))) if error else response)

    groups.report_commit(outcome, done)
    return stored.result()


def _commit_in_parts(
    context: RequestContext,
    request: OffsetCommitRequest,
    image: MetadataImage,
    commits: Commits,
    response: OffsetCommitResponse,
) -> Steps[Stored]:
    """Write very many offsets in parts, each checked against the group's present state."""
    groups = context.broker.groups
    stored: Answer[OffsetCommitResponse] = Answer()
    errors: dict[TopicPartition, ErrorCode] = {}
    waiting = 1

    def one_less() -> None:
        nonlocal waiting
        waiting -= 1
        if not waiting:
            stored(at_once(_failed(response, image, errors)) if errors else response)

    left = iter(commits.items())
    is_first = True
    while part := dict(islice(left, OFFSETS_AT_ONCE)):
        if (refusal := _refusal(context, request, image, part)) is not None:
            if is_first:
                return (yield from _refused_by_group(response, refusal))
            errors.update(dict.fromkeys(part, refusal))
            continue

        def done(error: ErrorCode, part: Commits = part) -> None:
            if error:
                errors.update(dict.fromkeys(part, error))
            one_less()

        is_first = False
        waiting += 1
        groups.report_commit(groups.commit_offsets(request.group_id, part), done)
        yield
    one_less()
    return stored.result()


def _refused(index: int, error: ErrorCode) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(partition_index=index, error_code=error)


def _refused_by_group(response: OffsetCommitResponse, refusal: ErrorCode) -> Steps[OffsetCommitResponse]:
    """The answer when the group takes no offsets.

    Partitions that do not exist keep their error.
    """
    replaced = (ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE)
    for topic in response.topics:
        yield
        results = topic.partitions
        for number, result in enumerate(results):
            if number and number % CHECKED_AT_ONCE == 0:
                yield
            if result.error_code in replaced:
                results[number] = _refused(result.partition_index, refusal)
    return response


def _failed(
    response: OffsetCommitResponse, image: MetadataImage, errors: Mapping[TopicPartition, ErrorCode]
) -> Steps[OffsetCommitResponse]:
    """The answer when some of the accepted offsets could not be written."""
    for topic in response.topics:
        yield
        name = topic.name or image.topic_name(topic.topic_id) or ""
        results = topic.partitions
        for number, result in enumerate(results):
            if number and number % CHECKED_AT_ONCE == 0:
                yield
            error = errors.get(TopicPartition(name, result.partition_index))
            if error is not None and result.error_code == ErrorCode.NONE:
                results[number] = _refused(result.partition_index, error)
    return response


def _refusal(
    context: RequestContext,
    request: OffsetCommitRequest,
    image: MetadataImage,
    keys: Iterable[TopicPartition],
) -> ErrorCode | None:
    """The error with which the group refuses offsets of these partitions, or None."""
    try:
        check = context.broker.groups.check_commit(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            context.api_version,
        )
        if check is not None:
            for key in keys:
                check(key.topic, image.topics[key.topic].id, key.partition)
    except KafkaError as error:
        if (
            error.code is ErrorCode.GROUP_ID_NOT_FOUND
            and context.api_version < FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND
        ):
            return ErrorCode.ILLEGAL_GENERATION
        return error.code
    return None
