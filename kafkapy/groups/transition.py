"""The records of one event: each is applied to the group at once, and all can be undone.

An event that fails halfway, or whose records are not accepted by the log, leaves the group as it was. What
else the event does (timers, answers) is done after the log has accepted the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from kafkapy.groups.change import Change


class Replayable(Protocol):
    """A group that changes by records only."""

    def replay(self, change: Any) -> None:
        """Apply a record."""

    def value_of(self, key: Any) -> Any:
        """The value of the record of this key that the state stands for; None if there is none."""


G = TypeVar("G", bound=Replayable)
K = TypeVar("K")


class EventRecords(Generic[G, K]):
    """What one event does to a group, whose records have keys of type K."""

    def __init__(self, group: G) -> None:
        self.group = group
        self.changes: list[Change[K]] = []
        self._before: list[Change[K]] = []
        self._effects: list[Callable[[], object]] = []
        self._undos: list[Callable[[], object]] = []

    def apply(self, change: Change[K]) -> None:
        """Change the group by a record."""
        self._before.append(Change(change.key, self.group.value_of(change.key)))
        self.group.replay(change)
        self.changes.append(change)

    def apply_all(self, changes: Iterable[Change[K]]) -> None:
        """Change the group by several records."""
        for change in changes:
            self.apply(change)

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
        for change in reversed(self._before):
            self.group.replay(change)

    def accepted(self) -> None:
        """Note that the log has accepted the records."""
        for effect in self._effects:
            effect()
