"""A broker that is about to stop hands over what it leads, and leaves the in-sync replicas.

What nobody else in sync can lead stays with it. Source: KafkaController.doControlledShutdown.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import islice

from kafkapy.controller import partition_states, replica_states
from kafkapy.controller.context import PartitionStatus, Replica
from kafkapy.controller.isr_changes import UNKNOWN_EPOCH
from kafkapy.controller.leader_election import elect_for_shutdown
from kafkapy.controller.state_changes import StateChanges
from kafkapy.controller.state_commits import PARTITIONS_AT_ONCE, StateCommits
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from kafkapy.protocol.types import TopicPartition

logger = logging.getLogger(__name__)


async def hand_over(commits: StateCommits, request: ControlledShutdownRequest) -> ControlledShutdownResponse:
    """Move the leaders away from a broker; the answer names what it still leads.

    The caller holds the writer's turn.

    Raises:
        KafkaError: BROKER_NOT_AVAILABLE, STALE_BROKER_EPOCH, or the metadata could not be changed.
    """
    context = commits.context
    broker = context.brokers.get(request.broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE)
    if request.broker_epoch not in (UNKNOWN_EPOCH, broker.epoch):
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
    logger.info("broker %d is shutting down", broker.id)
    context.shutting_down.add(broker.id)
    led: list[TopicPartition] = []
    followed: list[TopicPartition] = []
    for topic in commits.image.topics.values():
        for index, state in enumerate(topic.partitions):
            if broker.id in state.replicas and len(state.replicas) > 1:
                found = led if state.leader == broker.id else followed
                found.append(TopicPartition(topic.name, index))
    concerned = iter((*led, *followed))  # leaders move first: clients wait for them
    remaining: list[TopicPartition] = []
    while some := list(islice(concerned, PARTITIONS_AT_ONCE)):

        def build(changes: StateChanges, some: list[TopicPartition] = some) -> list[TopicPartition]:
            return [each for each in some if not _leave(changes, each, broker.id)]

        remaining += await commits.make(build)
        await asyncio.sleep(0)  # let other requests run
    return ControlledShutdownResponse(
        remaining_partitions=[
            RemainingPartition(topic_name=topic, partition_index=index) for topic, index in remaining
        ]
    )


def _leave(changes: StateChanges, partition: TopicPartition, broker: int) -> bool:
    """Let a broker that shuts down stop to lead or follow; return whether it does."""
    context, state = changes.context, changes.find(partition)
    if state is None or changes.status(partition) in (PartitionStatus.NEW, PartitionStatus.NON_EXISTENT):
        return True
    if state.leader == broker:
        alive = context.alive(state.replicas, partition)
        elected = elect_for_shutdown(state, alive, context.shutting_down)
        if elected is None:
            return False
        partition_states.lead(changes, partition, elected)
    else:
        replica_states.go_offline(changes, Replica(*partition, broker))
    return True
