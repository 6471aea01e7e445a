"""The base of all groups whose coordinator gives members their targets.

Apache Kafka's name for them is the same (ModernGroup). Their state changes by records only
(`kafkapy.groups.modern.event_records`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, ClassVar, Final, Generic, TypeVar

from kafkapy.groups.group import Group
from kafkapy.groups.modern.change import Change, encode_change
from kafkapy.groups.modern.event_records import EventRecords
from kafkapy.groups.modern.timeouts import MemberTimers
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.plain_batch import KeyValue

NO_EPOCH: Final = -1
FIRST_EPOCH: Final = 1
"""The epoch of a new group, and of its empty target assignment."""

M = TypeVar("M")
T = TypeVar("T")


class ModernGroup(Group, Generic[M, T]):
    """The epochs, members of type M and targets of type T of a group."""

    target_key: ClassVar[type]
    """The keys of the records of members' target assignments."""

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp = 0
        """When the target assignment was computed, in wall clock milliseconds; 0 if that is not known."""
        self.members: dict[str, M] = {}
        self.targets: dict[str, T] = {}
        """The target assignment, by member id."""
        self.timers = MemberTimers()
        self.changes_seen = 0
        """The number of changes of topics of which the group knows (topic_changes.py)."""

    @abstractmethod
    def replay(self, change: Any) -> None:
        """Apply a record."""

    @abstractmethod
    def value_of(self, key: Any) -> Any:
        """The value of the group's own record of this key; None if there is none."""

    @abstractmethod
    def _put(self, member_id: str, new: M | None) -> None:
        """Add, replace or remove a member, and update the totals of all members."""

    def undo_of(self, key: Any) -> Callable[[], object]:
        """What brings back the state as it is now, after a record of this key was applied.

        Members and targets are immutable and may be large, so they are kept as they are.
        """
        member_id = getattr(key, "member_id", None)
        if member_id is None:
            before = Change(key, self.value_of(key))
            return lambda: self.replay(before)
        if isinstance(key, self.target_key):
            return self.undo_of_target(member_id)
        return partial(self._put, member_id, self.members.get(member_id))

    def change_member(
        self, transition: EventRecords[Any, Any], member_id: str, new: M, record: KeyValue
    ) -> None:
        """Change a member by a record, which says the same of it as `new`.

        The record may name thousands of topics, so `new` is not read from it.
        """
        transition.add(record, undo=partial(self._put, member_id, self.members.get(member_id)))
        self._put(member_id, new)

    def undo_of_target(self, member_id: str) -> Callable[[], object]:
        """What brings back the present target of a member."""
        before = self.targets.get(member_id)
        if before is None:
            return lambda: self.targets.pop(member_id, None)
        return partial(self.targets.__setitem__, member_id, before)

    @abstractmethod
    def is_concerned_by(self, topic: str) -> bool:
        """Whether a change of the topic may change targets."""

    @abstractmethod
    def topics_changed(self, names: Collection[str] | None) -> None:
        """Look at these topics again at the next event; at all if that is None."""

    @abstractmethod
    def tombstones(self) -> Sequence[Change[Any]]:
        """The records that remove the group, apart from its offsets."""

    def tombstone_keys(self) -> Sequence[bytes]:
        """The keys of the group's records, apart from its offsets."""
        return [encode_change(change)[0] for change in self.tombstones()]

    def member(self, member_id: str) -> M:
        """The member of this id; raises KafkaError UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            message = f"Member {member_id} is not a member of group {self.group_id}."
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, message)
        return member

    def _replay_epoch(self, value: Any) -> None:
        """Apply the group's metadata record; None is its tombstone."""
        self.epoch = FIRST_EPOCH if value is None else value.epoch
        self.metadata_hash = 0 if value is None else value.metadata_hash

    def _replay_assignment_epoch(self, value: Any) -> None:
        """Apply the record of the target assignment's epoch; None is its tombstone."""
        self.assignment_epoch = FIRST_EPOCH if value is None else value.assignment_epoch
        self.assignment_timestamp = 0 if value is None else value.assignment_timestamp

    @property
    def is_abandoned(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    def validate_delete(self) -> None:
        """Raise KafkaError NON_EMPTY_GROUP if the group has members."""
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def close(self, error: ErrorCode, now_ms: int) -> None:
        """Cancel all timers: the group is deleted, converted or unloaded.

        No member waits for an answer.
        """
        self.timers.cancel_all()
