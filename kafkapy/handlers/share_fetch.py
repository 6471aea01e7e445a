"""ShareFetch: give a member of a share group records, each for itself (KIP-932).

Versions: 1-2.

Behaviour:

- The answer has whole batches, and says which offsets in them the member has acquired. Only these are for it,
  until their lock ends.
- Readers see what is below the high watermark, or with share.isolation.level=read_committed what is below the
  last stable offset; records of aborted transactions are left out.
- The request may say what became of records that were acquired before (ShareAcknowledge). The answer waits
  until this is committed.
- The answer waits while there are fewer than min bytes that may be acquired, for max wait at most. It also
  waits while the state of a share partition is read.
- The request belongs to a share session, which ends with the connection (`kafkapy.share.sessions`). If there
  are too many, the answer is SHARE_SESSION_LIMIT_REACHED after max wait.
- A partition with an error gets its own error code; the others are served. A partition without news is left
  out, except in the first answer of a session.

Version notes:

- v2 lets members renew the locks of records (KIP-1222), in a request that fetches nothing, and limit the
  number of records strictly (KIP-1206).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.leader_hints import LeaderHints
from kafkapy.handlers.per_partition import answer_by_topic, answer_each, visit_each, visit_partitions
from kafkapy.handlers.share_acknowledgements import (
    FIRST_VERSION_WITH_RENEWALS,
    acknowledgements_of,
    refused,
    require_member,
)
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.share_fetch import (
    AcquiredRecords,
    ForgottenTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kafkapy.protocol.types import Uuid
from kafkapy.replicas.topic_traffic import TopicTraffic
from kafkapy.security.acls.model import Operation, ResourceType
from kafkapy.share.fetch import ShareFetch, Taken, Wanted
from kafkapy.share.led_partitions import LedPartition
from kafkapy.share.sessions import FIRST_EPOCH, LAST_EPOCH, ShareSession
from kafkapy.share.share_partition import Acknowledgement
from kafkapy.share.state_records import ShareKey

MOST_PASSES: Final = 3
"""After so many passes without records the answer is empty: other members are faster."""
RECORD_LIMIT: Final = 1
"""The acquire mode in which max records is a strict limit."""


async def handle(context: RequestContext, request: ShareFetchRequest) -> ShareFetchResponse:
    """Hand over what the member says, and let it acquire records."""
    turns, sessions, led = context.broker.turns, context.broker.shares.sessions, context.broker.shares.led
    renews = context.api_version >= FIRST_VERSION_WITH_RENEWALS and request.is_renew_ack
    try:
        group_id, member_id = require_member(request.group_id, request.member_id)
        if renews:
            _require_no_fetch(request)
        said = await turns.finish(_said(context, request, group_id, renews=renews))
        session = _session(context, request, group_id, member_id, said)
    except KafkaError as error:
        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            await asyncio.sleep(max(request.max_wait_ms, 0) / 1000)
        return ShareFetchResponse(error_code=error.code, error_message=error.message)
    errors = said.errors
    good = {key: batches for key, batches in said.acknowledgements.items() if key not in errors}
    acknowledging = asyncio.ensure_future(led.acknowledge(group_id, member_id, good, turns.begin()))
    await asyncio.sleep(0)  # the changes begin, so that what was released can be acquired soon
    answers: dict[ShareKey, PartitionData] = {}
    taken: Mapping[LedPartition, Taken] = {}
    if request.share_session_epoch != LAST_EPOCH and not renews:
        taken = await _fetch(context, request, session, answers)
    try:
        errors.update(await acknowledging)
        if request.share_session_epoch == LAST_EPOCH:
            sessions.end(session)
        return await turns.finish(_response(context, answers, said, led.settings.lock_ms(group_id)))
    except BaseException:
        for each in taken.values():
            each.records.release()
        raise


class _Said(NamedTuple):
    """The content of a request, read in turns before anything is done about it."""

    acknowledgements: Mapping[ShareKey, Sequence[Acknowledgement]]
    errors: dict[ShareKey, KafkaError]
    """The errors of these, at first of those that make no sense."""
    keys: Mapping[ShareKey, object]
    """The partitions that it names."""
    forgotten: Sequence[ShareKey]


def _said(
    context: RequestContext, request: ShareFetchRequest, group_id: str, *, renews: bool
) -> Steps[_Said]:
    named = yield from acknowledgements_of(group_id, request.topics)
    acknowledgements: dict[ShareKey, Sequence[Acknowledgement]] = {}
    forgotten: list[ShareKey] = []

    def acknowledge(key: ShareKey) -> None:
        if named[key]:
            acknowledgements[key] = named[key]

    def forget(topic: ForgottenTopic, partition: int) -> None:
        forgotten.append(ShareKey(group_id, topic.topic_id, partition))

    yield from visit_each(named, acknowledge)
    yield from visit_partitions(request.forgotten_topics_data, lambda topic: topic.partitions, forget)
    errors = yield from refused(context, acknowledgements, version=context.api_version, renews=renews)
    return _Said(acknowledgements, errors, named, forgotten)


def _require_no_fetch(request: ShareFetchRequest) -> None:
    wrong = [
        name
        for name, value in (
            ("maxBytes", request.max_bytes),
            ("minBytes", request.min_bytes),
            ("maxRecords", request.max_records),
            ("maxWaitMs", request.max_wait_ms),
        )
        if value
    ]
    if wrong:
        text = "".join(f"{name} must be set to 0, " for name in wrong)
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{text}if isRenewAck is true.")


def _session(
    context: RequestContext, request: ShareFetchRequest, group_id: str, member_id: str, said: _Said
) -> ShareSession:
    """The session of the request, with its partitions; raises KafkaError."""
    sessions, epoch = context.broker.shares.sessions, request.share_session_epoch
    if epoch == LAST_EPOCH:
        return sessions.require(group_id, member_id)
    if epoch == FIRST_EPOCH:
        if said.acknowledgements:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return sessions.begin(group_id, member_id, said.keys, context.connection)
    return sessions.next(group_id, member_id, epoch, said.keys, said.forgotten)


async def _fetch(
    context: RequestContext,
    request: ShareFetchRequest,
    session: ShareSession,
    answers: dict[ShareKey, PartitionData],
) -> Mapping[LedPartition, Taken]:
    """Let the member acquire records; add the answers of partitions to `answers`."""
    broker = context.broker
    found = await broker.turns.finish(_partitions(context, session, request.share_session_epoch, answers))
    for topic in _traffic_of(found):
        topic.share_fetches += 1
    max_bytes = min(request.max_bytes, broker.config["fetch.max.bytes"])
    if not found or request.max_records <= 0 or max_bytes <= 0:
        return {}
    wanted = Wanted(
        session.member_id,
        max_bytes,
        min(request.min_bytes, max_bytes),
        request.max_records,
        max(request.batch_size, 1),
        request.share_acquire_mode == RECORD_LIMIT,
        broker.shares.led.settings.reads_committed(session.group_id),
    )
    fetch = ShareFetch(
        wanted,
        found,
        broker.shares.led,
        logs=broker.logs,
        waiters=broker.waiters,
        turns=broker.turns,
        cold_reads=broker.cold_reads,
    )
    loop = asyncio.get_running_loop()
    deadline = loop.time() + max(request.max_wait_ms, 0) / 1000
    try:
        for _ in range(MOST_PASSES):
            in_time = await fetch.wait(max(deadline - loop.time(), 0))
            if not broker.shares.sessions.is_open(session):
                break  # the member is gone, and would keep the records from others
            await fetch.take()
            broker.shares.led.counts.expired_fetches += not in_time
            if fetch.taken or fetch.errors or not in_time:
                break
    except BaseException:
        fetch.release()
        raise
    for topic in _traffic_of(fetch.errors):
        topic.failed_share_fetches += 1
    for led, error in fetch.errors.items():
        answers[led.key] = PartitionData(
            partition_index=led.key.partition,
            error_code=error.code,
            error_message=error.message,
            records=b"",
        )
    for led, taken in fetch.taken.items():
        if led.partition.traffic is not None:
            led.partition.traffic.bytes_out += taken.records.nbytes
        answers[led.key] = PartitionData(
            partition_index=led.key.partition,
            records=taken.records,
            acquired_records=[
                AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
                for first, last, count in taken.ranges
            ],
        )
    return fetch.taken


def _traffic_of(partitions: Iterable[LedPartition]) -> set[TopicTraffic]:
    """The numbers of the topics of share partitions, where metrics are on."""
    return {each.partition.traffic for each in partitions if each.partition.traffic is not None}


def _partitions(
    context: RequestContext, session: ShareSession, epoch: int, answers: dict[ShareKey, PartitionData]
) -> Steps[Sequence[LedPartition]]:
    """The share partitions of the session; those with errors are answered, and at first all.

    Each request begins with another one, so that none starves.
    """
    keys = tuple(session.keys)
    first = max(epoch, 0) % len(keys) if keys else 0

    def find(key: ShareKey) -> LedPartition | None:
        if not context.broker.shares.sessions.is_open(session):
            return None  # nobody would give up the share partitions that it finds
        name = context.broker.metadata.image.topic_name(key.topic_id)
        try:
            if name is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            context.require(Operation.READ, ResourceType.TOPIC, name)
            found = context.broker.shares.led.get(key, name)
        except KafkaError as error:
            answers[key] = PartitionData(
                partition_index=key.partition,
                error_code=error.code,
                error_message=error.message,
                records=b"",
            )
            return None
        if epoch == FIRST_EPOCH:
            answers[key] = PartitionData(partition_index=key.partition, records=b"")
        return found

    return answer_each((*keys[first:], *keys[:first]), find)


def _response(
    context: RequestContext, answers: dict[ShareKey, PartitionData], said: _Said, lock_ms: int
) -> Steps[ShareFetchResponse]:
    """The answers by topic, with the leaders of partitions that this broker does not lead."""

    def add_acknowledged(key: ShareKey) -> None:
        data = answers.setdefault(key, PartitionData(partition_index=key.partition, records=b""))
        error = said.errors.get(key)
        if error is not None:
            data.acknowledge_error_code, data.acknowledge_error_message = error.code, error.message

    hints = LeaderHints(context, LeaderIdAndEpoch, NodeEndpoint)

    def answer(found: tuple[ShareKey, PartitionData]) -> tuple[Uuid, PartitionData]:
        key, data = found
        if data.error_code:
            hints.add(data, context.broker.metadata.image.topic_name(key.topic_id), key.partition)
        return key.topic_id, data

    yield from visit_each(said.acknowledgements, add_acknowledged)
    topics = yield from answer_by_topic(
        answers.items(),
        answer,
        lambda topic, found: ShareFetchableTopicResponse(topic_id=topic, partitions=found),
    )
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=lock_ms, responses=topics, node_endpoints=hints.endpoints()
    )
