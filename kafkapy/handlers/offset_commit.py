"""OffsetCommit: store the offsets of a group.

Versions: 0-10.

Behaviour:

- Topics and partitions must exist. Where a partition is named twice, the last offset counts.
- A member commits with its id and generation. A consumer that assigns partitions to itself commits with
  generation -1, which is accepted as long as the group has no members.
- The accepted offsets of a request are written together; more than 500 are written in parts. They are
  answered when they are committed: with `durability=fsync` they are on disk.
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
- v2-4 are the only versions that say how long to keep the offsets.
- v6 adds the leader epoch, and v7 static membership.
- v9 answers GROUP_ID_NOT_FOUND for an unknown group. Before it, the answer is ILLEGAL_GENERATION.
- v10 names topics by id (KIP-848).
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Iterable
from functools import partial
from operator import attrgetter
from typing import Final

from kafkapy.coordination.answer import Answer
from kafkapy.groups.offsets.commit import Commit, accept_partitions
from kafkapy.groups.offsets.plain_commit import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    VERSION_WITH_TIMESTAMPS,
    plain_answer,
    plain_offsets,
)
from kafkapy.groups.offsets.zookeeper import ZooKeeperOffsets
from kafkapy.handlers.context import RequestContext
from kafkapy.loop.turns import Steps
from kafkapy.metadata.image import MetadataImage
from kafkapy.protocol.errors import NONE, ErrorCode, KafkaError
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafkapy.protocol.types import Part, TopicPartition
from kafkapy.security.acls.model import Operation, ResourceType

FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND: Final = 9

Stored = OffsetCommitResponse | list[Part]


def handle(
    context: RequestContext, request: OffsetCommitRequest
) -> Stored | Steps[Stored | Awaitable[Stored]] | Awaitable[Stored]:
    """Store the offsets that are acceptable."""
    version, broker = context.api_version, context.broker
    if version == 0 and broker.zookeeper_offsets is not None:
        return _store_in_tree(context, broker.zookeeper_offsets, request)
    if version == 0 and not broker.groups.runtime.has_topic:
        return _create_topic_and_store(context, request)
    return _store_plain(context, request) or _store(context, request)


def _store_plain(context: RequestContext, request: OffsetCommitRequest) -> Stored | Awaitable[Stored] | None:
    """Store a plain commit in fewer steps than `_store`; None if it is not plain."""
    version, image, groups = context.api_version, context.broker.metadata.image, context.broker.groups
    now, max_metadata = context.broker.clock.now_ms(), groups.config.offset_metadata_max_bytes
    plain = plain_offsets(request, version, image, now, max_metadata)
    if plain is None:
        return None
    topic_ids, offsets = plain
    names = {key.topic for key in offsets} if context.broker.authorizer is not None else ()
    if names and not all(context.may(Operation.READ, ResourceType.TOPIC, name) for name in names):
        return None
    answer = partial(plain_answer, version, context.correlation_id, topic_ids, offsets)
    refusal = _refusal(context, request, image, offsets)
    if refusal is not None:
        return answer(refusal)
    outcome = groups.writes.commit(request.group_id, offsets)
    if outcome is NONE:
        return answer(NONE)
    stored: Answer[Stored] = Answer()
    groups.writes.report(outcome, lambda error: stored(answer(error)))
    return stored.result()


def _store(context: RequestContext, request: OffsetCommitRequest) -> Steps[Stored | Awaitable[Stored]]:
    image, writes = context.broker.metadata.image, context.broker.groups.writes
    commit, response = yield from _read(context, request, image)
    if commit.is_void:
        return response
    stored: Answer[Stored] = Answer()
    yield from commit.write(
        lambda keys: _refusal(context, request, image, keys),
        lambda part, done: writes.report(writes.commit(request.group_id, part), done),
        lambda: stored(response),
    )
    return stored.result()


async def _create_topic_and_store(context: RequestContext, request: OffsetCommitRequest) -> Stored:
    with contextlib.suppress(KafkaError):  # without a topic, storing says what is wrong
        await context.broker.groups.runtime.ensure_topic()
    stored = await context.broker.turns.finish(_store(context, request))
    return await stored if isinstance(stored, Awaitable) else stored


async def _store_in_tree(
    context: RequestContext, tree: ZooKeeperOffsets, request: OffsetCommitRequest
) -> OffsetCommitResponse:
    """Store the offsets of v0 in the metadata tree."""
    turns = context.broker.turns
    commit, response = await turns.finish(_read(context, request, context.broker.metadata.image))
    await tree.store(request.group_id, commit, turns)
    return response


def _read(
    context: RequestContext, request: OffsetCommitRequest, image: MetadataImage
) -> Steps[tuple[Commit[OffsetCommitResponsePartition], OffsetCommitResponse]]:
    """The offsets that are acceptable, and the answer if all of these are stored."""
    version, now = context.api_version, context.broker.clock.now_ms()
    max_metadata = context.broker.groups.config.offset_metadata_max_bytes
    time_of = attrgetter("commit_timestamp") if version == VERSION_WITH_TIMESTAMPS else None
    commit = Commit(
        OffsetCommitResponsePartition, now, max_metadata, keep_ms=request.retention_time_ms, time_of=time_of
    )
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    response = OffsetCommitResponse()
    for asked in request.topics:
        if response.topics:
            yield
        topic = image.topics_by_id.get(asked.topic_id) if by_id else image.topics.get(asked.name)
        error = unknown
        if context.broker.authorizer is not None and (topic is not None or not by_id):
            name = asked.name if topic is None else topic.name
            if not context.may(Operation.READ, ResourceType.TOPIC, name):
                topic, error = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        results = yield from commit.read(topic, error, asked.partitions)
        response.topics.append(
            OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=results)
        )
    return commit, response


def _refusal(
    context: RequestContext,
    request: OffsetCommitRequest,
    image: MetadataImage,
    keys: Iterable[TopicPartition],
) -> ErrorCode | None:
    """The error with which the group refuses offsets of these partitions, or None."""
    version, generation = context.api_version, request.generation_id_or_member_epoch
    try:
        check = context.broker.groups.check_commit(
            request.group_id, request.member_id, request.group_instance_id, generation, version
        )
        if check is not None:
            accept_partitions(check, image, keys)
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND and version < FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND:
            return ErrorCode.ILLEGAL_GENERATION
        return error.code
    return None
