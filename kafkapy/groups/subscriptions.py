"""The topics that the members of a group subscribe to, whether they exist or not.

Members that name the same topics share one set, which is counted once. So what a change costs depends on the
names that come and go, and not on the number of members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Set
from typing import Final

NO_TOPICS: Final = frozenset[str]()


class Subscriptions:
    """Sets of names, each with the number of members that subscribe to it."""

    def __init__(self) -> None:
        self._sets: dict[frozenset[str], frozenset[str]] = {}
        self._members: Counter[frozenset[str]] = Counter()
        """How many subscribe to each set."""
        self._topics: Counter[str] = Counter()
        """How many different sets have each name."""
        self._changed: set[str] = set()
        self.size = 0
        """The number of names in all different sets."""

    @property
    def topics(self) -> Set[str]:
        """The topics that any member subscribes to, as they are from time to time."""
        return self._topics.keys()

    def size_with(self, old: frozenset[str], new: frozenset[str]) -> int:
        """What the size would be if a member subscribed to `new` instead of `old`."""
        gone = len(old) if self._members[old] == 1 and old != new else 0
        return self.size - gone + (0 if new in self._sets else len(new))

    def replace(self, old: frozenset[str], new: frozenset[str]) -> frozenset[str]:
        """Note that a member subscribes to `new` instead of `old`; return the set that stands for `new`."""
        if old == new:
            return self._sets.get(new, new)
        came, gone = self._add(new), self._remove(old)
        if came is not None and gone is not None:
            came, gone = came - gone, gone - came
        topics = self._topics
        for name in came or ():
            topics[name] += 1
            if topics[name] == 1:
                self._changed.add(name)
        for name in gone or ():
            topics[name] -= 1
            if not topics[name]:
                del topics[name]
                self._changed.add(name)
        return self._sets.get(new, new)

    def _add(self, names: frozenset[str]) -> frozenset[str] | None:
        """Count a member's set; return it if it is a new one."""
        if not names:
            return None
        self._members[names] += 1
        if self._members[names] > 1:
            return None
        self._sets[names] = names
        self.size += len(names)
        return names

    def _remove(self, names: frozenset[str]) -> frozenset[str] | None:
        """Count a member's set no more; return it if it was the last one."""
        if not names:
            return None
        self._members[names] -= 1
        if self._members[names]:
            return None
        del self._members[names], self._sets[names]
        self.size -= len(names)
        return names

    def note_changed(self, names: Collection[str]) -> None:
        """Note that topics were created, changed or deleted."""
        self._changed.update(name for name in names if name in self._topics)

    def take_changed(self) -> Collection[str]:
        """The names that came or went, or whose topics changed, since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def check(self, sets: Iterable[frozenset[str]]) -> None:
        """Assert that these are the sets of the members, in any order."""
        members = Counter(names for names in sets if names)
        assert self._members == members
        assert self._topics == Counter(name for names in members for name in names)
        assert self.size == sum(map(len, members))
