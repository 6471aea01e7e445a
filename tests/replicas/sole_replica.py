"""The leader of a partition without other replicas, as far as a partition needs one."""

from __future__ import annotations

from dataclasses import dataclass

from kafkapy.storage.damage.policy import SERVE_AROUND, DamagePolicy


@dataclass(frozen=True)
class SoleReplica:
    """What is ready here is committed."""

    leader_epoch: int

    has_others = False
    epoch_start_offset = 0
    may_be_deposed = False
    may_miss_batches = False

    @property
    def leads(self) -> bool:
        return True

    @property
    def damage_policy(self) -> DamagePolicy:
        return SERVE_AROUND

    def require_leader(self) -> None:
        """This broker leads."""

    def admit(self, acks: int) -> None:
        """Everything is taken."""

    def require_in_sync(self) -> None:
        """There are enough."""

    def committed(self, ready: int) -> int:
        return ready

    def low_watermark(self, log_start_offset: int) -> int:
        return log_start_offset
