"""The states of a replica and the transitions between them.

    NonExistent -> New                        it is assigned to a broker
    New, Offline, DeletionIneligible -> Online   its broker is told by LeaderAndIsr
    New, Online, DeletionIneligible -> Offline   its broker or log directory is lost, or it will be deleted
    Offline -> DeletionStarted                its broker is asked by StopReplica to delete it
    DeletionStarted -> DeletionSuccessful     its broker has deleted it
    Offline, DeletionStarted -> DeletionIneligible   its broker cannot delete it now
    DeletionSuccessful -> NonExistent         its topic is deleted, or it was removed by a reassignment

A transition that is not in this table is a mistake in the controller and raises AssertionError.

Source: Kafka's ReplicaStateMachine.
"""

from __future__ import annotations

from typing import Final

from kafkapy.controller.context import Replica, ReplicaStatus
from kafkapy.controller.leader_election import Elected
from kafkapy.controller.state_changes import StateChanges
from kafkapy.metadata.image import NO_LEADER
from kafkapy.protocol.types import TopicPartition

(
    NON_EXISTENT,
    NEW,
    ONLINE,
    OFFLINE,
    DELETION_STARTED,
    DELETION_SUCCESSFUL,
    DELETION_INELIGIBLE,
) = ReplicaStatus

VALID_PREVIOUS: Final = {
    NEW: frozenset({NON_EXISTENT}),
    ONLINE: frozenset({NEW, ONLINE, OFFLINE, DELETION_INELIGIBLE}),
    OFFLINE: frozenset({NEW, ONLINE, OFFLINE, DELETION_INELIGIBLE}),
    DELETION_STARTED: frozenset({OFFLINE}),
    DELETION_SUCCESSFUL: frozenset({DELETION_STARTED}),
    DELETION_INELIGIBLE: frozenset({OFFLINE, DELETION_STARTED}),
    NON_EXISTENT: frozenset({DELETION_SUCCESSFUL}),
}
"""For each state, the states that it may follow."""


def move(changes: StateChanges, replica: Replica, target: ReplicaStatus) -> None:
    """Move a replica to a state, and do nothing else."""
    before = changes.replica_status(replica)
    assert before in VALID_PREVIOUS[target], f"{replica} cannot go from {before.value} to {target.value}"
    changes.set_replica_status(replica, target)


def come_online(changes: StateChanges, replica: Replica, *, is_new: bool = False) -> None:
    """Tell a replica's broker its leader."""
    if changes.replica_status(replica) is NON_EXISTENT:
        move(changes, replica, NEW)
    move(changes, replica, ONLINE)
    changes.requests.leader_and_isr([replica.broker], _partition(replica), is_new=is_new)


def go_offline(changes: StateChanges, replica: Replica) -> None:
    """Stop a replica, take it out of the in-sync replicas, and tell the others.

    If the leader goes offline, the partition has none. A partition without a leader keeps its in-sync
    replicas: nothing has been written since, so all of them have every acknowledged record.
    """
    partition = _partition(replica)
    if changes.replica_status(replica) is NON_EXISTENT:
        move(changes, replica, NEW)
    move(changes, replica, OFFLINE)
    changes.requests.stop_replica([replica.broker], partition, delete=False)
    state = changes.state(partition)
    if replica.broker not in state.isr or state.leader == NO_LEADER:
        changes.requests.update_metadata(changes.context.brokers, [partition])
        return
    if replica.broker == state.leader:
        elected = Elected(NO_LEADER, state.isr, state.recovery_state)
    else:
        left = tuple(broker for broker in state.isr if broker != replica.broker)
        elected = Elected(state.leader, left, state.recovery_state)
    changes.write(partition, elected)
    others = (broker for broker in state.replicas if broker != replica.broker)
    changes.requests.leader_and_isr(changes.context.alive(others, partition), partition)


def start_deletion(changes: StateChanges, replica: Replica) -> None:
    """Ask a replica's broker to delete it; a lost broker is asked later.

    A replica that is offline may lack only room, and its deletion needs none. If its log directory failed,
    the broker refuses.
    """
    if changes.replica_status(replica) is NON_EXISTENT:
        move(changes, replica, NEW)
    move(changes, replica, OFFLINE)
    partition = _partition(replica)
    if replica.broker in changes.context.brokers:
        move(changes, replica, DELETION_STARTED)
        changes.requests.stop_replica([replica.broker], partition, delete=True)
    else:
        move(changes, replica, DELETION_INELIGIBLE)


def _partition(replica: Replica) -> TopicPartition:
    return TopicPartition(replica.topic, replica.partition)
