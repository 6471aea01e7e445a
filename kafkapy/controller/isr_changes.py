"""Leaders change the in-sync replicas of their partitions, if the controller agrees.

The checks are those of Apache Kafka 3.9 (KafkaController.tryProcessAlterPartition), in its order, and those
that only its KRaft controller makes (PartitionChangeBuilder, ReplicationControlManager): the leader asks for
itself, and the replicas are assigned and have the epochs that it knows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from kafkapy.controller.context import ControllerContext
from kafkapy.controller.leader_election import RECOVERED, RECOVERING
from kafkapy.controller.state_changes import StateChanges
from kafkapy.controller.state_commits import PARTITIONS_AT_ONCE, StateCommits
from kafkapy.metadata.image import PartitionState
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from kafkapy.protocol.types import ZERO_UUID, TopicPartition

logger = logging.getLogger(__name__)

UNKNOWN_EPOCH: Final = -1
"""The broker epoch in a request of a sender that does not know it; it is not compared."""


class IsrChange(NamedTuple):
    """A leader's request for one partition."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    recovery_state: int


async def alter_partitions(
    commits: StateCommits, request: AlterPartitionRequest
) -> tuple[AlterPartitionResponse, list[TopicPartition]]:
    """Change the in-sync replicas as leaders ask; return the answer, and what is in force now.

    The caller holds the writer's turn.

    Raises:
        KafkaError: the metadata could not be changed.
    """
    broker = commits.context.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH), []
    response, changed = AlterPartitionResponse(), []
    for topic in request.topics:
        is_named = topic.topic_id == ZERO_UUID
        name = topic.topic_name if is_named else commits.image.topic_name(topic.topic_id)
        answers: list[AlterPartitionResponsePartitionData] = []
        for start in range(0, len(topic.partitions), PARTITIONS_AT_ONCE):
            some = topic.partitions[start : start + PARTITIONS_AT_ONCE]

            def build(
                changes: StateChanges,
                name: str | None = name,
                some: Sequence[AlterPartitionRequestPartitionData] = some,
            ) -> list[AlterPartitionResponsePartitionData]:
                return [_alter(changes, request.broker_id, name, asked) for asked in some]

            answers += await commits.make(build)
            await asyncio.sleep(0)  # let other requests run
        for answer in answers:
            if answer.error_code == ErrorCode.NONE and name is not None:
                changed.append(TopicPartition(name, answer.partition_index))
            elif answer.error_code == ErrorCode.INELIGIBLE_REPLICA and is_named:
                # Versions 0 and 1, which name topics, do not know the error.
                answer.error_code = ErrorCode.OPERATION_NOT_ATTEMPTED
        response.topics.append(
            AlterPartitionResponseTopicData(
                topic_name=topic.topic_name, topic_id=topic.topic_id, partitions=answers
            )
        )
    return response, changed


def _alter(
    changes: StateChanges, leader: int, name: str | None, asked: AlterPartitionRequestPartitionData
) -> AlterPartitionResponsePartitionData:
    """Change one partition; return the answer for it."""
    try:
        if name is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = TopicPartition(name, asked.partition_index)
        state = changes.find(partition)
        if state is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        change = read_change(leader, asked)
        if not is_made(change, partition, state, changes.context):
            changes.write_isr(partition, change.isr, change.recovery_state)
            changes.requests.update_metadata(changes.context.brokers, [partition])
            state = changes.state(partition)
    except KafkaError as error:
        logger.info(
            "broker %d may not change the in-sync replicas of %s-%d: %s",
            leader,
            name,
            asked.partition_index,
            error,
        )
        return AlterPartitionResponsePartitionData(
            partition_index=asked.partition_index, error_code=error.code
        )
    return AlterPartitionResponsePartitionData(
        partition_index=asked.partition_index,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        leader_recovery_state=state.recovery_state,
        partition_epoch=state.version,
    )


def read_change(leader: int, asked: AlterPartitionRequestPartitionData) -> IsrChange:
    """The change in a request; before v3 it has no broker epochs."""
    brokers: Sequence[tuple[int, int]] = [
        (each.broker_id, each.broker_epoch) for each in asked.new_isr_with_epochs
    ] or [(broker, UNKNOWN_EPOCH) for broker in asked.new_isr]
    return IsrChange(
        leader,
        asked.leader_epoch,
        asked.partition_epoch,
        tuple(broker for broker, _ in brokers),
        tuple(epoch for _, epoch in brokers),
        asked.leader_recovery_state,
    )


def is_made(
    change: IsrChange, partition: TopicPartition, state: PartitionState, context: ControllerContext
) -> bool:
    """Check a change against the state of its partition; return whether it is in force already.

    Raises:
        KafkaError: it is refused.
    """
    if change.partition_epoch > state.version or change.leader_epoch > state.leader_epoch:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)  # a newer controller exists, which the leader should ask
    if change.leader_epoch < state.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    if change.leader != state.leader:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "only the leader may change the in-sync replicas")
    if (change.isr, change.recovery_state) == (state.isr, state.recovery_state):
        return True
    if change.partition_epoch < state.version:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION)
    if len(set(change.isr)) < len(change.isr) or not set(change.isr) <= set(state.replicas):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the in-sync replicas must be assigned, each once")
    if change.leader not in change.isr:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the leader must be in sync")
    if change.recovery_state == RECOVERING and len(change.isr) > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "nobody is in sync with a leader that is recovering")
    if state.recovery_state == RECOVERED and change.recovery_state == RECOVERING:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a leader that has recovered cannot be recovering")
    if change.recovery_state not in (RECOVERED, RECOVERING):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown recovery state {change.recovery_state}")
    for broker, epoch in zip(change.isr, change.broker_epochs, strict=True):
        # A leader that shuts down may be joined: so another replica can take over.
        if broker != state.leader and not _is_eligible(broker, epoch, partition, context):
            raise KafkaError(ErrorCode.INELIGIBLE_REPLICA, f"broker {broker} may not join")
    return False


def _is_eligible(broker: int, epoch: int, partition: TopicPartition, context: ControllerContext) -> bool:
    """Whether a replica may be in sync (KIP-841, KIP-903)."""
    return (
        context.is_online(broker, partition)
        and broker not in context.restarted
        and epoch in (UNKNOWN_EPOCH, context.brokers[broker].epoch)
    )
