"""A share group: its members and subscriptions, epochs, targets, share partitions.

    Empty    no members
    Stable   it has members

The state changes by `replay` only, one record at a time, as that of a consumer group does. This module does
no I/O and has no clock. `check()` asserts the invariants between any two events. Source: Apache Kafka's
ModernGroup, ShareGroup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, NoReturn, TypeAlias

from kafkapy.groups.group import CommitCheck, GroupType
from kafkapy.groups.member_total import identity_bytes, subscription_bytes
from kafkapy.groups.modern.event_records import EventRecords
from kafkapy.groups.modern.group import NO_EPOCH
from kafkapy.groups.modern.subscribed_group import SubscribedGroup
from kafkapy.groups.modern.subscriptions import NO_TOPICS
from kafkapy.groups.share import records
from kafkapy.groups.share.member import Partitions, ShareMember
from kafkapy.groups.share.records import ShareChange, ShareGroupKey
from kafkapy.groups.share.state_partitions import StatePartitions, StateTopics
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


class ShareGroup(SubscribedGroup[ShareMember, Partitions]):
    """One share group."""

    type = GroupType.SHARE
    target_key = ShareGroupTargetAssignmentMemberKey
    protocol_type: str | None = "share"

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.state_partitions = StatePartitions()
        self.has_state_partitions = False
        """Whether there is a record of them."""
        self._state_records = records.StateRecords()
        self.initializing_since: dict[Uuid, int] = {}
        """When the share coordinator was asked to initialize a topic, in wall clock milliseconds.

        It is not stored: after a restart it is asked again at once.
        """
        self.may_have_unassigned = False
        """Whether a subscribed partition was initialized that no target has, or may have been."""
        self._complete: tuple[StatePartitions, int] | None = None
        """The states and the version of the topics for which each partition had a state."""

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
            self._set_states(None if value is None else records.read_state_partitions(value))

    def change_states(self, transition: Transition, partitions: StatePartitions) -> None:
        """Change the states of share partitions by a record.

        The record may have thousands of topics, of which few change. So the states are not read from it.
        """
        before = self.state_partitions if self.has_state_partitions else None
        record = self._state_records.encode(self.group_id, partitions)
        transition.add(record, undo=lambda: self._set_states(before))
        self._set_states(partitions)

    def _set_states(self, partitions: StatePartitions | None) -> None:
        before = self.state_partitions.initialized
        self.has_state_partitions = partitions is not None
        self.state_partitions = StatePartitions() if partitions is None else partitions
        if self._gained(before):
            self.may_have_unassigned = True

    def value_of(self, key: ShareGroupKey) -> Any:
        """The value of the group's own record of this key; None if there is none."""
        group_id = self.group_id
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
        before = NO_TOPICS if old is None else old.topic_names
        names = self.subscriptions.replace(before, NO_TOPICS if new is None else new.topic_names)
        if old is not None:
            self.memory.add(-old.nbytes)
        if new is not None:
            self.members[member_id] = new if new.topic_names is names else replace(new, topic_names=names)
            self.memory.add(new.nbytes)

    # --- members --------------------------------------------------------------------------------------

    def target(self, member_id: str) -> Partitions:
        """The target assignment of a member."""
        return self.targets.get(member_id, {})

    def _gained(self, before: StateTopics) -> bool:
        """Whether a partition of a subscribed topic is initialized that was not before."""
        return any(
            each is not before.get(topic)
            and each.name in self.subscriptions.topics
            and not (topic in before and each.partitions <= before[topic].partitions)
            for topic, each in self.state_partitions.initialized.items()
        )

    def note_complete(self) -> None:
        """Note that each partition of the existing topics has a state."""
        self._complete = self.state_partitions, self.existing.version

    @property
    def is_complete(self) -> bool:
        """Whether each partition of the existing topics had a state, and nothing has changed since."""
        return (
            self._complete is not None
            and self._complete[0] is self.state_partitions
            and self._complete[1] == self.existing.version
        )

    def has_unassigned(self) -> bool:
        """Whether an initialized partition of a subscribed topic is in no target, by all of them."""
        assigned: dict[Uuid, set[int]] = {}
        for target in self.targets.values():
            for topic, partitions in target.items():
                assigned.setdefault(topic, set()).update(partitions)
        return bool(self.members) and any(
            name in self.subscriptions.topics and assigned.get(topic, set()) != set(partitions)
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
        self.subscriptions.check(member.topic_names for member in self.members.values())
        assert self.memory.nbytes == sum(each.nbytes for each in self.members.values())
        if self.assignment_epoch == self.epoch:
            assert self.may_have_unassigned or not self.has_unassigned()
        assert self.has_state_partitions or self.state_partitions == StatePartitions()
        self.state_partitions.check()


def _pairs(partitions: Partitions) -> set[tuple[Uuid, int]]:
    return {(topic, each) for topic, found in partitions.items() for each in found}


Transition: TypeAlias = EventRecords[ShareGroup, ShareGroupKey]
"""The records of one event of a group."""
