"""This broker's part in the replication of a partition.

It answers these questions:

- Does this broker lead the partition? The cluster decides that.
- Up to which offset are records committed? Up to the offset that this broker's durability setting allows, or
  up to the offset that all in-sync replicas have, if that is lower.
- Are enough replicas in sync for a producer that wants acks=all?
- How is damage handled? That depends on which other brokers have the records (storage/damage/policy.py).

    Unassigned     a replica that waits to be told its part
    Leader         leader.py
    Follower       follower.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.storage.damage.policy import SERVE_AROUND, DamagePolicy

ALL_REPLICAS: Final = -1
"""The acks of a producer that waits for all in-sync replicas."""

NO_EPOCH = -1
"""The leader epoch of a partition that never had a leader."""


class Replication(Protocol):
    """The replication of one partition with a fixed leader and leader epoch."""

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the leader."""

    @property
    def leads(self) -> bool:
        """Whether this broker is the leader."""

    @property
    def has_others(self) -> bool:
        """Whether other brokers have replicas, so that more than the high watermark is waited for.

        Followers wait for appends, acks=1 for this broker's disk, and a follower's next fetch for its own.
        """

    @property
    def epoch_start_offset(self) -> int:
        """Where the log ended when this broker began to lead.

        It is 0 if everything before is known to be committed.
        """

    @property
    def damage_policy(self) -> DamagePolicy:
        """How damage is handled: a leader must not give up undamaged records."""

    def require_leader(self) -> None:
        """Raise KafkaError NOT_LEADER_OR_FOLLOWER if another broker leads."""

    @property
    def may_be_deposed(self) -> bool:
        """Whether another broker may lead by now, which this one has not been told."""

    @property
    def may_miss_batches(self) -> bool:
        """Whether a batch may come that follows one which this broker does not have."""

    def committed(self, ready: int) -> int:
        """The offset up to which records are committed, if this broker is ready up to `ready`."""

    def admit(self, acks: int) -> None:
        """Let batches be appended here.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, another broker leads; with acks=all also NOT_ENOUGH_REPLICAS,
                too few are in sync for the topic.
        """

    def require_in_sync(self) -> None:
        """Raise KafkaError if too few replicas are in sync: NOT_ENOUGH_REPLICAS_AFTER_APPEND."""

    def low_watermark(self, log_start_offset: int) -> int:
        """The offset below which no live replica has records, if this one's log has that start."""


@dataclass(frozen=True, slots=True)
class Unassigned:
    """A replica whose part is not known yet.

    It serves nobody, and nothing in it changes.
    """

    leader_epoch: int = NO_EPOCH

    leads: ClassVar = False
    has_others: ClassVar = False
    epoch_start_offset: ClassVar = 0
    may_be_deposed: ClassVar = False
    may_miss_batches: ClassVar = False

    @property
    def damage_policy(self) -> DamagePolicy:
        """Serve the undamaged records: no other broker may have them."""
        return SERVE_AROUND

    def require_leader(self) -> None:
        """Refuse the request."""
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def admit(self, acks: int) -> None:
        """Refuse the request."""
        self.require_leader()

    def require_in_sync(self) -> None:
        """Do nothing: a broker that does not lead acknowledges nothing."""

    def committed(self, ready: int) -> int:
        """Nothing new."""
        return 0

    def low_watermark(self, log_start_offset: int) -> int:
        """This log's start."""
        return log_start_offset
