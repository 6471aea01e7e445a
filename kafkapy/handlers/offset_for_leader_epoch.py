"""OffsetForLeaderEpoch: say where a leader epoch ended.

Versions: 0-4.

Behaviour:

- A consumer that sees a new leader epoch asks for the end offset of the epoch that it read last. It
  truncates its position if the log was truncated below it (KIP-320).
- A follower asks the same before it fetches from a leader that does not answer with diverging epochs
  (KIP-101). Only the leader answers.
- An epoch that the log has never seen is answered with -1; while a replica in sync is silent, with
  NOT_LEADER_OR_FOLLOWER, since another broker may lead in that epoch (`Leader.may_be_deposed`).
- A partition that is named twice with the same epochs is answered once. Apache Kafka answers it each time.

Version notes:

- v1 adds the epoch that was found to the answer.
- v2 adds the client's current leader epoch, which may be fenced.
- v3 adds the replica id.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_partitions
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from kafkapy.security.acls.model import Operation, ResourceType


def handle(
    context: RequestContext, request: OffsetForLeaderEpochRequest
) -> Steps[OffsetForLeaderEpochResponse]:
    """Answer the largest epoch not above the one asked for, and its end offset, by partition."""
    sees_all = context.may_on_cluster(Operation.CLUSTER_ACTION, log_if_denied=False)
    answered: set[tuple[str, int, int, int]] = set()

    def answer(topic: OffsetForLeaderTopic, wanted: OffsetForLeaderPartition) -> EpochEndOffset | None:
        asked = topic.topic, wanted.partition, wanted.leader_epoch, wanted.current_leader_epoch
        if asked in answered:
            return None
        answered.add(asked)
        if not sees_all and not context.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic):
            refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return EpochEndOffset(partition=wanted.partition, error_code=refusal)
        return _end_offset(context, topic.topic, wanted)

    topics = yield from answer_partitions(
        request.topics,
        lambda topic: topic.partitions,
        answer,
        lambda topic, answers: OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers),
    )
    return OffsetForLeaderEpochResponse(topics=topics)


def _end_offset(context: RequestContext, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=wanted.partition)
    try:
        partition = context.broker.replicas.partition(topic, wanted.partition)
        partition.require_leader_epoch(wanted.current_leader_epoch)
        answer.leader_epoch, answer.end_offset = partition.end_offset_for_epoch(wanted.leader_epoch)
    except KafkaError as error:
        answer.error_code = error.code
    else:
        answer.error_code = ErrorCode.NONE
    return answer
