"""The follower's part in the replication of a partition.

The fetchers (fetcher.py) bring it the leader's records. They are committed here as far as the leader says so
and this broker has them. Damage is truncated: the leader has the records.
"""

from __future__ import annotations

from typing import Final

from kafkapy.metadata.image import PartitionState
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.storage.damage.policy import TRUNCATE_AND_REFETCH, DamagePolicy


class Follower:
    """The replication of a partition that another broker leads, for one leader epoch."""

    __slots__ = ("leader", "leader_epoch", "leader_high_watermark", "partition_epoch")

    leads: Final = False
    has_others: Final = True
    epoch_start_offset: Final = 0
    may_be_deposed: Final = False
    may_miss_batches: Final = True

    def __init__(self, state: PartitionState) -> None:
        self.leader = state.leader
        """The id of the broker that leads; NO_LEADER if there is none."""
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.version
        self.leader_high_watermark = 0
        """The leader's high watermark, as the last answer had it."""

    @property
    def damage_policy(self) -> DamagePolicy:
        """Truncate at damage, and fetch again."""
        return TRUNCATE_AND_REFETCH

    def require_leader(self) -> None:
        """Refuse the request: another broker leads."""
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def committed(self, ready: int) -> int:
        """The part of `ready` that is committed: up to the leader's high watermark."""
        return min(ready, self.leader_high_watermark)

    def admit(self, acks: int) -> None:
        """Refuse the request: another broker leads."""
        self.require_leader()

    def require_in_sync(self) -> None:
        """Do nothing: only leaders demand replicas."""

    def low_watermark(self, log_start_offset: int) -> int:
        """This log's start."""
        return log_start_offset
