"""This broker's part in the replication of a partition.

It says two things of a partition: whether this broker leads it, and how far its records are committed. The
cluster decides the first. The second follows from the disk here and from the other replicas: the high
watermark is the lower of what this broker's durability asks of its disk and of what all in-sync replicas
have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Replication(Protocol):
    """The replication of one partition, as long as its leader and its replicas stay the same."""

    @property
    def leader_epoch(self) -> int:
        """The epoch in which the leader leads."""

    def require_leader(self) -> None:
        """Raise KafkaError NOT_LEADER_OR_FOLLOWER if another broker leads."""

    def committed(self, ready: int) -> int:
        """The offset up to which records are committed, with `ready` for this broker's own."""


@dataclass(frozen=True, slots=True)
class SoleReplica:
    """This broker leads, and no other has a replica: what is ready here is committed."""

    leader_epoch: int

    def require_leader(self) -> None:
        """Do nothing: this broker leads."""

    def committed(self, ready: int) -> int:
        """All of it."""
        return ready
