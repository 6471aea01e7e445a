"""AlterPartitionReassignments: move the replicas of partitions to other brokers (KIP-455).

Versions: 0-1.

Behaviour:

- The controller begins to move each partition, and answers. Any other broker is NOT_CONTROLLER.
- New replicas must be on live brokers, each broker once: else INVALID_REPLICA_ASSIGNMENT.
- Replicas null cancel a move. If there is none: NO_REASSIGNMENT_IN_PROGRESS.
- A partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION.
- On a sole broker a valid assignment is the one in force, and asking for it changes nothing. That is as much
  as kafka-reassign-partitions needs to move partitions between log directories.

Version notes:

- v1 can forbid that the number of replicas changes: INVALID_REPLICATION_FACTOR.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence

from kafkapy.controller.assignment import check_manual_replicas
from kafkapy.controller.controller import Controller
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_by_topic, answer_partitions, visit_partitions
from kafkapy.loop.turns import Steps, Turns
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from kafkapy.protocol.types import TopicPartition


def handle(
    context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Steps[AlterPartitionReassignmentsResponse | Awaitable[AlterPartitionReassignmentsResponse]]:
    """Answer each partition on its own."""
    if context.broker.admin.controller is not None:
        controller = context.broker.admin.active_controller()
        targets: dict[TopicPartition, list[int] | None] = {}

        def want(topic: ReassignableTopic, wanted: ReassignablePartition) -> None:
            targets[TopicPartition(topic.name, wanted.partition_index)] = wanted.replicas

        yield from visit_partitions(request.topics, lambda topic: topic.partitions, want)
        return _alter(context.broker.turns, controller, request, targets)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=(
            yield from answer_partitions(
                request.topics,
                lambda topic: topic.partitions,
                lambda topic, wanted: _answer(context, topic.name, wanted),
                lambda topic, answers: ReassignableTopicResponse(name=topic.name, partitions=answers),
            )
        ),
    )


async def _alter(
    turns: Turns,
    controller: Controller,
    request: AlterPartitionReassignmentsRequest,
    wanted: Mapping[TopicPartition, Sequence[int] | None],
) -> AlterPartitionReassignmentsResponse:
    """Have the controller move the partitions."""
    results = await controller.alter_reassignments(
        wanted, may_change_factor=request.allow_replication_factor_change
    )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=await turns.finish(_by_topic(results)),
    )


def _by_topic(
    results: Mapping[TopicPartition, KafkaError | None],
) -> Steps[list[ReassignableTopicResponse]]:
    def answer(
        result: tuple[TopicPartition, KafkaError | None],
    ) -> tuple[str, ReassignablePartitionResponse]:
        (topic, index), error = result
        return topic, ReassignablePartitionResponse(
            partition_index=index,
            error_code=ErrorCode.NONE if error is None else error.code,
            error_message=None if error is None else error.message,
        )

    return answer_by_topic(
        results.items(),
        answer,
        lambda topic, answers: ReassignableTopicResponse(name=topic, partitions=answers),
    )


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
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "There is no other broker.")
