"""The interface of a group of any type.

Source: Apache Kafka's Group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum

from kafkapy.groups.member_total import MemberTotal
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.types import Uuid

CommitCheck = Callable[[str, Uuid, int], None]
"""Raises KafkaError if the member may not commit an offset of this partition (topic, its id, number)."""


class GroupType(Enum):
    """The types of groups, with Kafka's names in ListGroups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Group(ABC):
    """A group that this broker coordinates."""

    type: GroupType
    group_id: str
    protocol_type: str | None
    """None for a group that only stores offsets ("simple")."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.memory = MemberTotal()
        """About how much memory the metadata of the members takes."""

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The state's name, as tools show it."""

    @property
    @abstractmethod
    def is_abandoned(self) -> bool:
        """Whether the group has neither members nor pending members."""

    def bytes_of_member(self, member_id: str) -> int:
        """The part of `memory` that one member takes; 0 if there is none of this id."""
        return 0

    @abstractmethod
    def validate_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        version: int | None = None,
        *,
        in_transaction: bool = False,
    ) -> CommitCheck | None:
        """Raise KafkaError if the group refuses offsets of this client.

        `version` is that of an OffsetCommit. If a function is returned, it must accept every partition.
        """

    @abstractmethod
    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise KafkaError if the client is not the member that it says it is."""

    @abstractmethod
    def validate_offset_delete(self) -> None:
        """Raise KafkaError if it is not known which offsets the members still need."""

    @abstractmethod
    def validate_delete(self) -> None:
        """Raise KafkaError if the group cannot be deleted."""

    @abstractmethod
    def is_subscribed(self, topic: str) -> bool:
        """Whether a member may be reading the topic.

        If so, its offsets stay and do not expire.
        """

    @abstractmethod
    def retention_start(self, commit_timestamp: int) -> int | None:
        """When the retention of an offset committed at `commit_timestamp` began.

        None while the group's offsets do not expire. Both are wall clock milliseconds.
        """

    @abstractmethod
    def tombstone_keys(self) -> Sequence[bytes]:
        """The keys of the group's records, apart from its offsets."""

    @abstractmethod
    def close(self, error: ErrorCode, now_ms: int) -> None:
        """Answer waiting members with `error`, and cancel all timers.

        The group is deleted or unloaded.
        """
