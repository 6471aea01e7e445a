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
from collections.abc import Iterable, Mapping
from typing import Final

from kafkapy.coordination.runtime import TransactionalProducer
from kafkapy.coordination.topic_log import Done
from kafkapy.groups.offsets.commit import Commit, accept_partitions
from kafkapy.groups.offsets.committed_offset import EncodedOffset
from kafkapy.handlers.context import RequestContext
from kafkapy.loop.turns import Steps
from kafkapy.metadata.image import MetadataImage
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kafkapy.protocol.records import NO_SEQUENCE
from kafkapy.protocol.topic_names import GROUP_METADATA_TOPIC
from kafkapy.protocol.types import TopicPartition
from kafkapy.security.acls.model import Operation, ResourceType
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


async def handle(context: RequestContext, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    """Store the offsets that are acceptable."""
    turns, image = context.broker.turns, context.broker.metadata.image
    commit, response = await turns.finish(_read(context, request, image))
    if commit.is_void:
        return response
    try:
        verification = await _verify(context, request)
    except KafkaError as error:
        await turns.finish(commit.refuse(_for_client(context, error.code)))
        return response
    groups = context.broker.groups
    producer = TransactionalProducer(request.producer_id, request.producer_epoch, verification)
    written: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def write(part: Mapping[TopicPartition, EncodedOffset], done: Done) -> None:
        groups.writes.commit_in_transaction(
            request.group_id, producer, part, lambda error: done(_for_client(context, error))
        )

    await turns.finish(
        commit.write(
            lambda keys: _refusal(context, request, image, keys), write, lambda: written.set_result(None)
        )
    )
    await written
    return response


def _read(
    context: RequestContext, request: TxnOffsetCommitRequest, image: MetadataImage
) -> Steps[tuple[Commit[TxnOffsetCommitResponsePartition], TxnOffsetCommitResponse]]:
    """The offsets that are acceptable, and the answer if all of these are stored."""
    broker = context.broker
    max_metadata = broker.groups.config.offset_metadata_max_bytes
    commit = Commit(TxnOffsetCommitResponsePartition, broker.clock.now_ms(), max_metadata)
    response = TxnOffsetCommitResponse()
    for asked in request.topics:
        yield
        topic, error = image.topics.get(asked.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not context.may(Operation.READ, ResourceType.TOPIC, asked.name):
            topic, error = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        results = yield from commit.read(topic, error, asked.partitions)
        response.topics.append(TxnOffsetCommitResponseTopic(name=asked.name, partitions=results))
    return commit, response


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


def _refusal(
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    image: MetadataImage,
    keys: Iterable[TopicPartition],
) -> ErrorCode | None:
    """The error with which the group refuses offsets of these partitions, or None."""
    try:
        check = context.broker.groups.check_commit_in_transaction(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
        )
        if check is not None:
            accept_partitions(check, image, keys)
    except KafkaError as error:
        return _for_client(context, error.code)
    return None


def _for_client(context: RequestContext, error: ErrorCode) -> ErrorCode:
    error = _FOR_CLIENTS.get(error, error)
    if (
        error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        and context.api_version < FIRST_VERSION_THAT_KNOWS_LOADING
    ):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error
