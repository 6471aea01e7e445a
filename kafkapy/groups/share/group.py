"""A share group: its members and subscriptions, epochs, targets, share partitions.

    Empty    no members
    Stable   it has members

The state changes by `replay` only, one record at a time, as that of a consumer group does. This module does
no I/O and has no clock. `check()` asserts the invariants between any two events. Source: Apache Kafka's
ModernGroup, ShareGroup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, NoReturn

from kafkapy.groups.consumer.member import subscription_bytes
from kafkapy.groups.group import CommitCheck, GroupType
from kafkapy.groups.member_total import identity_bytes
from kafkapy.groups.modern_group import NO_EPOCH, ModernGroup
from kafkapy.groups.share import records
from kafkapy.groups.share.member import Partitions, ShareMember
from kafkapy.groups.share.records import ShareChange, ShareGroupKey
from kafkapy.groups.share.state_partitions import StatePartitions
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)
from kafkapy.protocol.types import Uuid


class ShareGroupState(Enum):
    """Kafka's names, as ShareGroupDescribe and ListGroups show them."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class ShareGroup(ModernGroup[ShareMember, Partitions]):
    """One share group."""

    type = GroupType.SHARE
    protocol_type: str | None = "share"

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.state_partitions = StatePartitions()
        self.has_state_partitions = False
        """Whether there is a record of them."""
        self.initializing_since: dict[Uuid, int] = {}
        """When the share coordinator was asked to initialize a topic, in wall clock milliseconds.

        It is not stored: after a restart it is asked again at once.
        """
        self.refresh_deadline_ms = 0
        """When the metadata of the topics is looked at again, in wall clock milliseconds."""
        self._subscribers: Counter[str] = Counter()
        """The number of members that subscribe to a topic."""

    # --- records --------------------------------------------------------------------------------------

    def replay(self, change: ShareChange) -> None:
        """Apply a record."""
        key, value = change
        if isinstance(key, ShareGroupCurrentMemberAssignmentKey):
            self._replay_current_assignment(key.member_id, value)
        elif isinstance(key, ShareGroupTargetAssignmentMemberKey):
            if value is None:
                self.targets.pop(key.member_id, None)
            else:
                self.targets[key.member_id] = records.read_partitions(value.topic_partitions)
        elif isinstance(key, ShareGroupMemberMetadataKey):
            self._replay_member(key.member_id, value)
        elif isinstance(key, ShareGroupMetadataKey):
            self._replay_epoch(value)
        elif isinstance(key, ShareGroupTargetAssignmentMetadataKey):
            self._replay_assignment_epoch(value)
        else:
            self.has_state_partitions = value is not None
            self.state_partitions = (
                StatePartitions() if value is None else records.read_state_partitions(value)
            )

    def value_of(self, key: ShareGroupKey) -> Any:
        """The value of the record of this key that the state stands for; None if there is none."""
        group_id = self.group_id
        if isinstance(key, ShareGroupCurrentMemberAssignmentKey):
            member = self.members.get(key.member_id)
            return None if member is None else records.current_assignment(group_id, member).value
        if isinstance(key, ShareGroupTargetAssignmentMemberKey):
            target = self.targets.get(key.member_id)
            if target is None:
                return None
            return records.target_assignment(group_id, key.member_id, target).value
        if isinstance(key, ShareGroupMemberMetadataKey):
            member = self.members.get(key.member_id)
            return None if member is None else records.member_metadata(group_id, member).value
        if isinstance(key, ShareGroupMetadataKey):
            return records.group_epoch(group_id, self.epoch, self.metadata_hash).value
        if isinstance(key, ShareGroupTargetAssignmentMetadataKey):
            change = records.assignment_epoch(group_id, self.assignment_epoch, self.assignment_timestamp)
            return change.value
        if not self.has_state_partitions:
            return None
        return records.state_partitions(group_id, self.state_partitions).value

    def _replay_member(self, member_id: str, value: Any) -> None:
        if value is None:
            self._put(member_id, None)
            return
        self._put(
            member_id,
            replace(
                self.members.get(member_id, ShareMember(member_id)),
                rack_id=value.rack_id,
                client_id=value.client_id,
                client_host=value.client_host,
                topic_names=frozenset(value.subscribed_topic_names),
                nbytes=subscription_bytes(value.subscribed_topic_names)
                + identity_bytes(member_id, value.rack_id, value.client_id, value.client_host),
            ),
        )

    def _replay_current_assignment(self, member_id: str, value: Any) -> None:
        member = self.members.get(member_id)
        if value is None:
            if member is not None:
                self._put(member_id, replace(member, epoch=NO_EPOCH, assigned={}))
            return
        self._put(
            member_id,
            replace(
                member or ShareMember(member_id),
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                assigned=records.read_partitions(value.assigned_partitions),
            ),
        )

    def _put(self, member_id: str, new: ShareMember | None) -> None:
        """Add, replace or remove a member, and count its subscriptions."""
        old = self.members.pop(member_id, None) if new is None else self.members.get(member_id)
        if old is not None:
            self._subscribers.subtract(old.topic_names)
            self.memory.add(-old.nbytes)
        if new is not None:
            self.members[member_id] = new
            self._subscribers.update(new.topic_names)
            self.memory.add(new.nbytes)
        self._subscribers = +self._subscribers

    # --- members --------------------------------------------------------------------------------------

    def target(self, member_id: str) -> Partitions:
        """The target assignment of a member."""
        return self.targets.get(member_id, {})

    def subscribed_topics(self) -> frozenset[str]:
        """The topics that any member subscribes to."""
        return frozenset(self._subscribers)

    def has_unassigned(self) -> bool:
        """Whether an initialized partition of a subscribed topic is in no target."""
        assigned: dict[Uuid, set[int]] = {}
        for target in self.targets.values():
            for topic, partitions in target.items():
                assigned.setdefault(topic, set()).update(partitions)
        return bool(self.members) and any(
            name in self._subscribers and assigned.get(topic, set()) != set(partitions)
            for topic, (name, partitions) in self.state_partitions.initialized.items()
        )

    # --- the interface of any group -------------------------------------------------------------------

    def bytes_of_member(self, member_id: str) -> int:
        """The part of `memory` that one member takes."""
        member = self.members.get(member_id)
        return 0 if member is None else member.nbytes

    @property
    def state(self) -> ShareGroupState:
        """The state."""
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def state_name(self) -> str:
        """The state's name, as tools show it."""
        return self.state.value

    @property
    def is_abandoned(self) -> bool:
        """Whether nobody needs the group: never, its share partitions stay until it is deleted."""
        return False

    def validate_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        version: int | None = None,
        *,
        in_transaction: bool = False,
    ) -> CommitCheck | None:
        """Refuse: a share group has no committed offsets."""
        self._refuse()

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuse: a share group has no committed offsets."""
        self._refuse()

    def validate_offset_delete(self) -> None:
        """Refuse: a share group has no committed offsets."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        message = f"Group {self.group_id} is not a consumer group."
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)

    def is_concerned_by(self, topic: str) -> bool:
        """Whether a member subscribes to the topic."""
        return self.is_subscribed(topic)

    def topics_changed(self) -> None:
        """Look at the topics again at the next event."""
        self.refresh_deadline_ms = 0

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member subscribes to the topic."""
        return topic in self._subscribers

    def retention_start(self, commit_timestamp: int) -> int | None:
        """None: there are no offsets that could expire."""
        return None

    def tombstones(self) -> Sequence[ShareChange]:
        """The records that remove the group, apart from its offsets."""
        return records.group_gone(self.group_id, self.members)

    # --- invariants -----------------------------------------------------------------------------------

    def check(self) -> None:
        """Assert the invariants that hold between any two events."""
        for member_id, member in self.members.items():
            assert member_id == member.member_id
            assert member.epoch <= self.assignment_epoch <= self.epoch, "no epoch is ahead of what it is of"
            if member.epoch == self.assignment_epoch:
                target = _pairs(self.target(member_id))
                assert _pairs(member.assigned) <= target, "a member has no more than its target"
        assert self.targets.keys() <= self.members.keys()
        counted = Counter(name for member in self.members.values() for name in member.topic_names)
        assert self._subscribers == counted
        assert self.memory.nbytes == sum(each.nbytes for each in self.members.values())
        assert self.has_state_partitions or self.state_partitions == StatePartitions()
        self.state_partitions.check()


def _pairs(partitions: Partitions) -> set[tuple[Uuid, int]]:
    return {(topic, each) for topic, found in partitions.items() for each in found}


def topics_without(members: Iterable[ShareMember], member_id: str) -> frozenset[str]:
    """The topics that the other members subscribe to."""
    others = (member.topic_names for member in members if member.member_id != member_id)
    return frozenset().union(*others)
