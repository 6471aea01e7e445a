"""The states of a partition and the transitions between them.

    NonExistent -> New       it is in the metadata, without a leader yet
    New -> Online            its first leader is the first online replica; all online replicas are in sync
    Offline -> Online        another leader is elected
    Online -> Online         another leader is elected: a preferred one, after a reassignment, for a shutdown
    New, Online -> Offline   its leader is lost, or it is about to be deleted
    Offline -> NonExistent   it is being deleted

A transition that is not in this table is a mistake in the controller and raises AssertionError. Whenever a
partition gets a leader, all of its replicas are told by LeaderAndIsr, and all brokers by UpdateMetadata.

Source: Kafka's PartitionStateMachine.
"""

from __future__ import annotations

from typing import Final

from kafkapy.controller.context import PartitionStatus
from kafkapy.controller.leader_election import RECOVERED, Elected
from kafkapy.controller.state_changes import StateChanges
from kafkapy.metadata.image import NO_LEADER, NO_NODE
from kafkapy.protocol.types import TopicPartition

NON_EXISTENT, NEW, ONLINE, OFFLINE = PartitionStatus

VALID_PREVIOUS: Final = {
    NEW: frozenset({NON_EXISTENT}),
    ONLINE: frozenset({NEW, ONLINE, OFFLINE}),
    OFFLINE: frozenset({NEW, ONLINE, OFFLINE}),
    NON_EXISTENT: frozenset({OFFLINE, NON_EXISTENT}),
}
"""For each state, the states that it may follow."""


def move(changes: StateChanges, partition: TopicPartition, target: PartitionStatus) -> None:
    """Move a partition to a state, and do nothing else."""
    before = changes.status(partition)
    assert before in VALID_PREVIOUS[target], f"{partition} cannot go from {before.value} to {target.value}"
    changes.set_status(partition, target)


def find(changes: StateChanges, partition: TopicPartition) -> None:
    """Give a partition that the machine does not know the state that the metadata shows."""
    state = changes.state(partition)
    move(changes, partition, NEW)
    if state.version != NO_NODE:
        move(changes, partition, ONLINE if changes.context.is_alive(state.leader, partition) else OFFLINE)


def bring_online(changes: StateChanges, partition: TopicPartition) -> bool:
    """Elect the first leader of a new partition; return whether a replica is online to lead."""
    replicas = changes.state(partition).replicas
    online = changes.context.online(replicas, partition)
    if not online:
        return False
    move(changes, partition, ONLINE)
    changes.write(partition, Elected(online[0], online, RECOVERED))
    changes.requests.leader_and_isr(changes.context.alive(replicas, partition), partition, is_new=True)
    return True


def lead(changes: StateChanges, partition: TopicPartition, elected: Elected) -> None:
    """Give a partition the leader that was elected."""
    move(changes, partition, ONLINE)
    changes.write(partition, elected)
    _tell_all(changes, partition)


def lose_leader(changes: StateChanges, partition: TopicPartition) -> None:
    """Leave a partition without a leader; the in-sync replicas stay."""
    move(changes, partition, OFFLINE)
    state = changes.state(partition)
    if state.leader != NO_LEADER:
        changes.write(partition, Elected(NO_LEADER, state.isr, state.recovery_state))
        _tell_all(changes, partition)


def _tell_all(changes: StateChanges, partition: TopicPartition) -> None:
    alive = changes.context.alive(changes.state(partition).replicas, partition)
    changes.requests.leader_and_isr(alive, partition)
