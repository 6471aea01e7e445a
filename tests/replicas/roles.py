"""The parts of a broker in the replication of a partition, without a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafkapy.metadata.image import PartitionState
from kafkapy.replicas.follower import Follower
from kafkapy.replicas.leader import Leader, LeaderParts, Proposal
from kafkapy.replicas.partition import Partition

NODE: Final = 1
OTHER: Final = 2

LONG: Final = 1e9
"""No replica lags, and none is silent: the time of these leaders stands still."""


def _proposed(proposal: Proposal) -> None:
    """Leave it open: there is no controller."""


PARTS: Final = LeaderParts(
    NODE,
    now=lambda: 0.0,
    lag_seconds=lambda: LONG,
    registered_epoch=lambda broker: 1,
    propose=_proposed,
)


def lead(partition: Partition, leader_epoch: int = 0, *, followers: Sequence[int] = ()) -> Leader:
    """Let this broker lead a partition that other brokers follow, which are all in sync."""
    replicas = (NODE, *followers)
    leader = Leader(partition, PartitionState(NODE, leader_epoch, replicas, replicas), PARTS)
    partition.replicate(leader)
    return leader


def fetch(leader: Leader, offset: int, follower: int = OTHER) -> None:
    """Let a follower fetch from an offset: it has what is below."""
    leader.fetched(leader.follower(follower, -1, knows_epoch=True), offset, 0, -1)


def follow(partition: Partition, leader_epoch: int = 0) -> None:
    """Let another broker lead a partition."""
    replicas = (NODE, OTHER)
    partition.replicate(Follower(PartitionState(OTHER, leader_epoch, replicas, replicas)))
