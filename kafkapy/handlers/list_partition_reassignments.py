"""ListPartitionReassignments: list partitions that are moving between brokers (KIP-455).

Versions: 0.

Behaviour:

- The controller lists the partitions that are moving: all of them, or those that are asked for. Any other
  broker is NOT_CONTROLLER.
- On a sole broker the list is empty. DescribeLogDirs shows moves between its log directories.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_by_topic, visit_partitions
from kafkapy.loop.turns import Steps
from kafkapy.metadata.image import PartitionState
from kafkapy.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kafkapy.protocol.types import TopicPartition


def handle(
    context: RequestContext, request: ListPartitionReassignmentsRequest
) -> Steps[ListPartitionReassignmentsResponse]:
    """Answer what is moving."""
    response = ListPartitionReassignmentsResponse(error_message=None)
    if context.broker.admin.controller is None:
        return response
    moving = context.broker.admin.active_controller().moving()
    found = moving
    if request.topics is not None:
        found = {}

        def look(topic: ListPartitionReassignmentsTopics, index: int) -> None:
            partition = TopicPartition(topic.name, index)
            if partition in moving:
                found[partition] = moving[partition]

        yield from visit_partitions(request.topics, lambda topic: topic.partition_indexes, look)

    def answer(
        moves: tuple[TopicPartition, PartitionState],
    ) -> tuple[str, OngoingPartitionReassignment]:
        (name, index), state = moves
        return name, OngoingPartitionReassignment(
            partition_index=index,
            replicas=list(state.replicas),
            adding_replicas=list(state.adding),
            removing_replicas=list(state.removing),
        )

    response.topics = yield from answer_by_topic(
        found.items(),
        answer,
        lambda name, answers: OngoingTopicReassignment(name=name, partitions=answers),
    )
    return response
