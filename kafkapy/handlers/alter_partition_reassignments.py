"""AlterPartitionReassignments: move the replicas of partitions to other brokers (KIP-455).

Versions: 0-1.

Behaviour:

- There is one broker, so a valid assignment is the one in force, and asking for it changes nothing. That is
  as much as kafka-reassign-partitions needs to move partitions between log directories.
- An assignment to brokers that are not registered is INVALID_REPLICA_ASSIGNMENT.
- There is never a reassignment to cancel: NO_REASSIGNMENT_IN_PROGRESS.
- A partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION.

Version notes:

- v1 can forbid that the number of replicas changes. It cannot change here.
"""

from __future__ import annotations

from kafkapy.controller.assignment import check_manual_replicas
from kafkapy.handlers.context import RequestContext
from kafkapy.process.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def handle(
    context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Steps[AlterPartitionReassignmentsResponse]:
    """Answer each partition on its own."""
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None
    )
    for topic in request.topics:
        answer = ReassignableTopicResponse(name=topic.name)
        response.responses.append(answer)
        for wanted in topic.partitions:
            yield
            answer.partitions.append(_answer(context, topic.name, wanted))
    return response


def _answer(
    context: RequestContext, topic: str, wanted: ReassignablePartition
) -> ReassignablePartitionResponse:
    code, message = ErrorCode.NONE, None
    try:
        _check(context, topic, wanted)
    except KafkaError as error:
        code, message = error.code, error.message
    return ReassignablePartitionResponse(
        partition_index=wanted.partition_index, error_code=code, error_message=message
    )


def _check(context: RequestContext, topic: str, wanted: ReassignablePartition) -> None:
    image = context.broker.metadata.image
    state = image.partition(topic, wanted.partition_index)
    if state is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if wanted.replicas is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    check_manual_replicas(wanted.replicas, image.brokers, None)
    if sorted(wanted.replicas) != sorted(state.replicas):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Replicas do not move between brokers yet.")
