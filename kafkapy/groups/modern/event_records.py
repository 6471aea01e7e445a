"""The records of one event: each is applied to the group at once, and all can be undone.

An event that fails halfway, or whose records are not accepted by the log, leaves the group as it was. What
else the event does (timers, answers) is done after the log has accepted the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from kafkapy.groups.modern.change import Change, EncodedChange, TargetChange
from kafkapy.protocol.plain_batch import KeyValue


class Replayable(Protocol):
    """A group that changes by records only."""

    targets: dict[str, Any]
    """The target assignment, by member id."""

    def replay(self, change: Any) -> None:
        """Apply a record."""

    def undo_of(self, key: Any) -> Callable[[], object]:
        """What brings back the state as it is now, after a record of this key was applied."""

    def undo_of_target(self, member_id: str) -> Callable[[], object]:
        """What brings back the present target of a member."""


G = TypeVar("G", bound=Replayable)
K = TypeVar("K")


class EventRecords(Generic[G, K]):
    """What one event does to a group, whose records have keys of type K."""

    def __init__(self, group: G) -> None:
        self.group = group
        self.changes: list[Change[K] | TargetChange | EncodedChange] = []
        self._before: list[Callable[[], object]] = []
        """Each takes back the change of a record."""
        self._effects: list[Callable[[], object]] = []
        self._undos: list[Callable[[], object]] = []

    def apply(self, change: Change[K]) -> None:
        """Change the group by a record."""
        self._before.append(self.group.undo_of(change.key))
        self.group.replay(change)
        self.changes.append(change)

    def apply_all(self, changes: Iterable[Change[K]]) -> None:
        """Change the group by several records."""
        for change in changes:
            self.apply(change)

    def apply_targets(self, changes: Iterable[TargetChange]) -> None:
        """Change target assignments by records that are encoded already."""
        for change in changes:
            self._before.append(self.group.undo_of_target(change.member_id))
            self.group.targets[change.member_id] = change.target
            self.changes.append(change)

    def add(self, record: KeyValue, undo: Callable[[], object]) -> None:
        """Note a record that is applied already; `undo` takes it back."""
        self._before.append(undo)
        self.changes.append(EncodedChange(record))

    def afterwards(self, effect: Callable[[], object]) -> None:
        """Call `effect` when the log has accepted the records."""
        self._effects.append(effect)

    def on_undo(self, undo: Callable[[], object]) -> None:
        """Call `undo` if the records are taken back."""
        self._undos.append(undo)

    def undo(self) -> None:
        """Take all records back."""
        for undo in self._undos:
            undo()
        for bring_back in reversed(self._before):
            bring_back()

    def accepted(self) -> None:
        """Note that the log has accepted the records."""
        for effect in self._effects:
            effect()
