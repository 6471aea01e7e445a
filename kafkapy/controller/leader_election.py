"""The choice of a partition's leader, and of the replicas that are in sync then.

Each function answers for one partition, from its state and the replicas that may be elected. The first of
the assigned replicas that qualifies is elected. The in-sync replicas are never empty: if all of them are
lost, they stay as they are until one comes back, since only they are known to have every acknowledged
record.

An unclean election makes a replica lead that is not in sync, and loses what it does not have. The new leader
is recovering until it says otherwise (KIP-704).

Source: Kafka's Election and PartitionLeaderElectionAlgorithms.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from kafkapy.metadata.image import PartitionState

RECOVERED: Final = 0
RECOVERING: Final = 1


class Elected(NamedTuple):
    """A new leader and the in-sync replicas; never empty, and the leader is one of them."""

    leader: int
    isr: tuple[int, ...]
    recovery_state: int


def elect_offline(
    state: PartitionState,
    online: Collection[int],
    restarted: Collection[int] = (),
    *,
    unclean: bool = False,
) -> Elected | None:
    """The leader of a partition whose leader is lost; None if no replica can lead.

    Replicas on brokers that have `restarted` since they were last told what they are count as lost, if others
    are in sync: so they rejoin when they have caught up. If there are no others, they lead in a new epoch.
    """
    in_sync = [broker for broker in state.isr if broker in online]
    candidates = [broker for broker in in_sync if broker not in restarted] or in_sync
    leader = next((broker for broker in state.replicas if broker in candidates), None)
    if leader is not None:
        return Elected(leader, tuple(candidates), state.recovery_state)
    if unclean:
        leader = next((broker for broker in state.replicas if broker in online), None)
        if leader is not None:
            return Elected(leader, (leader,), RECOVERING)
    return None


def elect_preferred(state: PartitionState, online: Collection[int]) -> Elected | None:
    """The first replica, if it is online and in sync."""
    preferred = state.replicas[0]
    return _led_by(state, preferred) if preferred in online and preferred in state.isr else None


def elect_reassigned(state: PartitionState, online: Collection[int]) -> Elected | None:
    """The first in-sync replica of those that stay after a reassignment."""
    leader = next(
        (
            broker
            for broker in state.replicas
            if broker not in state.removing and broker in online and broker in state.isr
        ),
        None,
    )
    return None if leader is None else _led_by(state, leader)


def elect_for_shutdown(
    state: PartitionState, alive: Collection[int], shutting_down: Collection[int]
) -> Elected | None:
    """The first in-sync replica on a broker that stays.

    Brokers that shut down leave the in-sync replicas.
    """
    staying = tuple(broker for broker in state.isr if broker not in shutting_down)
    leader = next((broker for broker in state.replicas if broker in alive and broker in staying), None)
    return None if leader is None else Elected(leader, staying, state.recovery_state)


def _led_by(state: PartitionState, leader: int) -> Elected:
    return Elected(leader, state.isr, state.recovery_state)
