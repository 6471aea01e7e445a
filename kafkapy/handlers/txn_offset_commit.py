"""TxnOffsetCommit: store the offsets of a group in a transaction.

Versions: 0-5.

Behaviour:

- The offsets count when the transaction commits. Until then, a consumer that requires stable offsets gets
  UNSTABLE_OFFSET_COMMIT for their partitions.
- Before the first offsets of a transaction are written, its coordinator is asked whether the group's
  partition of `__consumer_offsets` is part of it. If not, the answer is INVALID_TXN_STATE, or
  TRANSACTION_ABORTABLE from v4 on.
- Without a name of a group, the answer is INVALID_GROUP_ID; OffsetCommit takes such offsets.
- Topics and partitions must exist. Where a partition is named twice, the last offset counts.
- The accepted offsets of a request are written together; more than 500 are written in parts.
- A commit does not extend the member's session.

Version notes:

- v2 adds the leader epoch. Clients before it get COORDINATOR_NOT_AVAILABLE while the group is being loaded.
- v3 adds the member, which must be of the group's generation: ILLEGAL_GENERATION otherwise, in groups of all
  types. Without one, the offsets are always accepted.
- v5 adds the partition to the transaction: the client has not done so (KIP-890).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from kafkapy.coordination.runtime import TransactionalProducer
from kafkapy.groups.offsets.committed_offset import EncodedOffset, encode_offset
from kafkapy.groups.offsets.offsets import partitions_of
from kafkapy.groups.offsets.writes import OFFSETS_AT_ONCE
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_partitions, visit_each
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kafkapy.protocol.records import NO_SEQUENCE
from kafkapy.protocol.topic_names import GROUP_METADATA_TOPIC
from kafkapy.protocol.types import TopicPartition, Uuid
from kafkapy.storage.log.verification import Verification
from kafkapy.transactions.verifier import Participation

FIRST_VERSION_THAT_KNOWS_LOADING: Final = 2
FIRST_VERSION_THAT_KNOWS_ABORTABLE: Final = 4
FIRST_VERSION_THAT_ADDS: Final = 5

_FOR_CLIENTS: Final = {
    # Clients ask again without looking for the coordinator.
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    # A producer that gets an error which it does not know here cannot even abort the transaction.
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH: ErrorCode.ILLEGAL_GENERATION,
}


class _Accepted(NamedTuple):
    """The offset of a partition."""

    topic_id: Uuid
    offset: EncodedOffset
    results: list[TxnOffsetCommitResponsePartition]
    """The results that stand for it."""


async def handle(context: RequestContext, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    """Store the offsets that are acceptable."""
    turns = context.broker.turns
    existing: list[TxnOffsetCommitResponsePartition] = []
    accepted: dict[TopicPartition, _Accepted] = {}
    topics = await turns.finish(_read(context, request, existing, accepted))
    response = TxnOffsetCommitResponse(topics=topics)
    if not existing:
        return response
    try:
        verification = await _verify(context, request)
        written = await turns.finish(_write(context, request, accepted, verification))
    except KafkaError as error:
        for result in existing:
            result.error_code = _for_client(context, error.code)
        return response
    for keys, outcome in written:
        error_code = _for_client(context, await outcome)
        for key in keys:
            for result in accepted[key].results:
                result.error_code = error_code
    return response


def _read(
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    existing: list[TxnOffsetCommitResponsePartition],
    accepted: dict[TopicPartition, _Accepted],
) -> Steps[list[TxnOffsetCommitResponseTopic]]:
    """Check the partitions, and their offsets' metadata."""
    image = context.broker.metadata.image
    now = context.broker.clock.now_ms()
    max_metadata = context.broker.groups.config.offset_metadata_max_bytes

    def check(
        topic: TxnOffsetCommitRequestTopic, each: TxnOffsetCommitRequestPartition
    ) -> TxnOffsetCommitResponsePartition:
        result = TxnOffsetCommitResponsePartition(partition_index=each.partition_index)
        if image.partition(topic.name, each.partition_index) is None:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return result
        existing.append(result)
        metadata = each.committed_metadata or ""
        if len(metadata) > max_metadata:
            result.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            return result
        known = image.topics[topic.name]
        key = partitions_of(known.name)[each.partition_index]
        offset = encode_offset(
            each.committed_offset, each.committed_leader_epoch, metadata, now, topic_id=known.id
        )
        results = accepted[key].results if key in accepted else []
        results.append(result)
        accepted[key] = _Accepted(known.id, offset, results)
        return result

    return answer_partitions(
        request.topics,
        lambda topic: topic.partitions,
        check,
        lambda topic, results: TxnOffsetCommitResponseTopic(name=topic.name, partitions=results),
    )


async def _verify(context: RequestContext, request: TxnOffsetCommitRequest) -> Verification | None:
    """Verify that the group's partition is part of the transaction, or add it.

    Raises:
        KafkaError: it is not, or cannot be verified now; or the group has no name.
    """
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    broker = context.broker
    broker.groups.runtime.require_active(request.group_id)
    index = broker.groups.runtime.partition_of(request.group_id)
    key = TopicPartition(GROUP_METADATA_TOPIC, index)
    adds = context.api_version >= FIRST_VERSION_THAT_ADDS
    asked = Participation(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        (key,),
        adds=adds,
        knows_abortable=context.api_version >= FIRST_VERSION_THAT_KNOWS_ABORTABLE,
    )
    while True:
        partition = broker.replicas.partition(*key)
        verification = partition.begin_verification(
            request.producer_id,
            request.producer_epoch,
            NO_SEQUENCE,
            begins_at_zero=adds,
            now_ms=broker.clock.now_ms(),
        )
        if verification is None:
            return None
        answer = broker.verifier.verify(asked)
        refusals = answer if isinstance(answer, dict) else await answer
        if refusals:
            raise KafkaError(refusals[key])
        # Otherwise the marker of the transaction before came meanwhile.
        if partition.log.producers.is_verifying(request.producer_id, verification):
            return verification


def _write(
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    accepted: dict[TopicPartition, _Accepted],
    verification: Verification | None,
) -> Steps[list[tuple[Sequence[TopicPartition], asyncio.Future[ErrorCode]]]]:
    """Write the offsets, each part checked against the group's present state."""
    groups = context.broker.groups
    loop = asyncio.get_running_loop()
    producer = TransactionalProducer(request.producer_id, request.producer_epoch, verification)
    keys = list(accepted)
    written: list[tuple[Sequence[TopicPartition], asyncio.Future[ErrorCode]]] = []

    def write(start: int) -> None:
        part = keys[start : start + OFFSETS_AT_ONCE]
        outcome: asyncio.Future[ErrorCode] = loop.create_future()
        try:
            check = groups.check_commit_in_transaction(
                request.group_id,
                request.member_id,
                request.group_instance_id,
                request.generation_id_or_member_epoch,
            )
            if check is not None:
                for key in part:
                    check(key.topic, accepted[key].topic_id, key.partition)
        except KafkaError as error:
            if not start:
                raise
            outcome.set_result(error.code)
        else:
            if part:
                commits = {key: accepted[key].offset for key in part}
                groups.commit_offsets_in_transaction(request.group_id, producer, commits, outcome.set_result)
        if part:
            written.append((part, outcome))

    yield from visit_each(range(0, len(keys) or 1, OFFSETS_AT_ONCE), write)
    return written


def _for_client(context: RequestContext, error: ErrorCode) -> ErrorCode:
    error = _FOR_CLIENTS.get(error, error)
    if (
        error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        and context.api_version < FIRST_VERSION_THAT_KNOWS_LOADING
    ):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error
