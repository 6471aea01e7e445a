"""A member of a consumer group.

                    nothing to revoke
      ┌───────────────────────────────────────────────┐
      │                                               ▼
    STABLE ──► UNREVOKED_PARTITIONS ──► UNRELEASED_PARTITIONS ──► STABLE
      waits for a     the client has      another member still      every partition
      new target      to give up some     has some of its target    of the target is its own

Members are immutable: a change makes a new one. Source: Apache Kafka's ConsumerGroupMember, MemberState.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import IntEnum

from kafkapy.groups.classic.member import Protocols
from kafkapy.groups.modern.heartbeats import STATIC_LEAVE_EPOCH
from kafkapy.protocol.messages.consumer_group_heartbeat import TopicPartitions
from kafkapy.protocol.types import Uuid

Partitions = Mapping[Uuid, Mapping[int, int]]
"""Partitions of a member by topic id, each with the epoch at which it was assigned."""


class MemberState(IntEnum):
    """The states, with the numbers of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127
    """A state of a newer release of Kafka. The member has to start again."""


@dataclass(frozen=True, slots=True)
class ClassicProtocol:
    """The JoinGroup of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: Protocols


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """One member."""

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    assignor: str | None = None
    classic: ClassicProtocol | None = None
    """None for a member that sends ConsumerGroupHeartbeat."""
    nbytes: int = field(default=0, compare=False)
    """About how many bytes of memory the member's metadata takes, without the topics of its expression."""
    assigned: Partitions = field(default_factory=dict)
    revoking: Partitions = field(default_factory=dict)
    """The partitions that the client has to give up, and has not given up yet."""

    @property
    def is_away(self) -> bool:
        """Whether it is a static member that left and may come back."""
        return self.epoch == STATIC_LEAVE_EPOCH

    @property
    def partitions(self) -> Mapping[Uuid, Set[int]]:
        """All partitions that it has, with those that it must give up."""
        return {
            topic: self.assigned.get(topic, {}).keys() | self.revoking.get(topic, {}).keys()
            for topic in {**self.assigned, **self.revoking}
        }

    def at_epoch(self, epoch: int) -> ConsumerMember:
        """The member at another epoch."""
        return replace(self, previous_epoch=self.epoch, epoch=epoch)

    @property
    def is_revoking(self) -> bool:
        """Whether the member must give something up."""
        return self.state is MemberState.UNREVOKED_PARTITIONS

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it has reached the target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def owns_all(self, owned: Iterable[TopicPartitions] | None) -> bool:
        """Whether the client owns only what is assigned to it; False if it does not say."""
        return owned is not None and all(
            topic.topic_id in self.assigned and self.assigned[topic.topic_id].keys() >= set(topic.partitions)
            for topic in owned
        )

    def has_same_partitions(self, other: ConsumerMember) -> bool:
        """Whether the same partitions are assigned to both, at whatever epochs."""
        before, after = other.assigned, self.assigned
        return after is before or (
            after.keys() == before.keys()
            and all(
                partitions is before[topic] or partitions.keys() == before[topic].keys()
                for topic, partitions in after.items()
            )
        )
