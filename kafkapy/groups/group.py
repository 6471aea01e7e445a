"""What is asked of a group, whatever its type.

Source: Apache Kafka's Group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum

from kafkapy.protocol.errors import ErrorCode


class GroupType(Enum):
    """Kafka's names, as ListGroups shows them."""

    CLASSIC = "classic"


class Group(ABC):
    """A group that this broker coordinates."""

    type: GroupType
    group_id: str
    protocol_type: str | None
    """None for a group that only stores offsets ("simple")."""

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The state's name, as tools show it."""

    @property
    @abstractmethod
    def is_abandoned(self) -> bool:
        """Whether it has no members and nobody is about to be one."""

    @abstractmethod
    def validate_offset_commit(self, member_id: str, group_instance_id: str | None, generation: int) -> None:
        """Raises KafkaError where the group takes no offsets from this client."""

    @abstractmethod
    def validate_offset_delete(self) -> None:
        """Raises KafkaError where nobody can know which offsets the members still need."""

    @abstractmethod
    def validate_delete(self) -> None:
        """Raises KafkaError where the group has to stay."""

    @abstractmethod
    def is_subscribed(self, topic: str) -> bool:
        """Whether a member may be reading the topic. If so, its offsets stay and do not expire."""

    @abstractmethod
    def retention_start(self, commit_timestamp: int) -> int | None:
        """When the retention time of an offset began that was committed at `commit_timestamp`.

        None while none of the group's offsets expires. Both are wall clock milliseconds.
        """

    @abstractmethod
    def tombstone_keys(self) -> Sequence[bytes]:
        """The keys of the records that are the group, without its offsets."""

    @abstractmethod
    def close(self, error: ErrorCode, now_ms: int) -> None:
        """Answer waiting members with `error`, and keep no timer.

        The group is deleted or unloaded.
        """
