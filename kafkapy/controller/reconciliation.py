"""Brings a partition into line with the live brokers, after brokers came or went.

It does not matter what has happened, or in which order: a partition whose leader is lost gets another, lost
replicas leave the in-sync replicas, and replicas on brokers that came are told the leader. So a change that
could not be written is simply made again later.

A broker that has started anew counts as gone and come: it may have lost what it had, and does not know what
it leads. What it leads again, it leads in a new leader epoch (`leader_election.elect_offline`), so that
records which it lost are told apart from later ones (KIP-101).
"""

from __future__ import annotations

import logging

from kafkapy.controller import partition_states, replica_states
from kafkapy.controller.context import ControllerContext, PartitionStatus, Replica, ReplicaStatus
from kafkapy.controller.leader_election import Elected, elect_offline
from kafkapy.controller.state_changes import StateChanges
from kafkapy.metadata.image import PartitionState
from kafkapy.protocol.types import TopicPartition

logger = logging.getLogger(__name__)


def reconcile(
    changes: StateChanges,
    partition: TopicPartition,
    *,
    unclean: bool,
    is_new: bool,
    tell_all: bool = False,
) -> None:
    """Bring a partition into line.

    Args:
        unclean: whether a replica that is not in sync may lead, if no other can.
        is_new: whether a partition that the controller sees for the first time has just been created.
        tell_all: whether to tell all replicas its state, also those that know it.
    """
    state = changes.find(partition)
    if state is None or not state.replicas or partition.topic in changes.context.deletions:
        return
    is_found = changes.status(partition) is PartitionStatus.NON_EXISTENT
    if is_found:
        partition_states.find(changes, partition)
    if changes.status(partition) is PartitionStatus.NEW:
        partition_states.bring_online(changes, partition)
    elif _leader_is_lost(changes.context, partition, changes.state(partition)):
        _elect(changes, partition, unclean=unclean)
    else:
        if changes.status(partition) is PartitionStatus.OFFLINE:
            partition_states.move(changes, partition, PartitionStatus.ONLINE)
        _shrink_isr(changes, partition)
    _move_replicas(changes, partition, is_new=is_new and is_found, tell_all=tell_all)


def _leader_is_lost(context: ControllerContext, partition: TopicPartition, state: PartitionState) -> bool:
    return not context.is_alive(state.leader, partition) or state.leader in context.restarted


def _elect(changes: StateChanges, partition: TopicPartition, *, unclean: bool) -> None:
    partition_states.move(changes, partition, PartitionStatus.OFFLINE)
    context, state = changes.context, changes.state(partition)
    online = context.online(state.replicas, partition)
    elected = elect_offline(state, online, context.restarted, unclean=unclean)
    if elected is None:
        partition_states.lose_leader(changes, partition)
        return
    if elected.leader not in state.isr:
        logger.warning(
            "Unclean election: broker %d leads %s though it is not in sync. Records are lost that only the"
            " brokers %s have.",
            elected.leader,
            partition,
            ", ".join(map(str, state.isr)),
        )
    partition_states.lead(changes, partition, elected)


def _shrink_isr(changes: StateChanges, partition: TopicPartition) -> None:
    """Take lost replicas out of the in-sync replicas of a partition whose leader stays."""
    context, state = changes.context, changes.state(partition)
    left = tuple(
        broker
        for broker in state.isr
        if context.is_alive(broker, partition) and broker not in context.restarted
    )
    if left != state.isr:
        partition_states.lead(changes, partition, Elected(state.leader, left, state.recovery_state))


def _move_replicas(changes: StateChanges, partition: TopicPartition, *, is_new: bool, tell_all: bool) -> None:
    context = changes.context
    for broker in changes.state(partition).replicas:
        replica = Replica(*partition, broker)
        status = changes.replica_status(replica)
        if not context.is_alive(broker, partition):
            if status is not ReplicaStatus.OFFLINE:
                replica_states.go_offline(changes, replica)
        elif status is not ReplicaStatus.ONLINE or broker in context.restarted or tell_all:
            replica_states.come_online(changes, replica, is_new=is_new)
