"""The topics that the members of a group subscribe to, whether they exist or not.

Members that name the same topics share one set, which is counted once. So the cost of a change depends on the
names that come and go, and not on the number of members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Set
from typing import Final

from kafkapy.protocol.errors import ErrorCode, KafkaError

NO_TOPICS: Final = frozenset[str]()
MAX_NAMES: Final = 200_000
"""The most names in the different subscriptions of one group: a target assignment looks at all of them."""


class Subscriptions:
    """Sets of names, each with the number of members that subscribe to it."""

    most_names = MAX_NAMES

    def __init__(self) -> None:
        self._sets: dict[frozenset[str], frozenset[str]] = {}
        self._members: Counter[frozenset[str]] = Counter()
        """How many subscribe to each set."""
        self._topics: set[str] = set()
        self._more: Counter[str] = Counter()
        """How many more sets than one have a name: most names are in one."""
        self._changed: set[str] = set()
        self.size = 0
        """The number of names in all different sets."""

    @property
    def topics(self) -> Set[str]:
        """The topics that any member subscribes to."""
        return self._topics

    def require_room(self, old: frozenset[str], new: frozenset[str]) -> None:
        """Refuse a subscription to `new` instead of `old` that is too much for the group.

        Raises:
            KafkaError: GROUP_MAX_SIZE_REACHED.
        """
        if new in self._sets:
            return
        others = self.size - (len(old) if self._members[old] == 1 else 0)
        if others + len(new) > self.most_names:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The member names {len(new):,} topics. The members of one group may name "
                f"{self.most_names:,} in different subscriptions, and the others name {others:,}.",
            )

    def replace(self, old: frozenset[str], new: frozenset[str]) -> frozenset[str]:
        """Note that a member subscribes to `new` instead of `old`.

        Return the set that stands for `new`.
        """
        if old == new:
            return self._sets.get(new, new)
        came, gone = self._add(new), self._remove(old)
        if came is not None and gone is not None:
            came, gone = came - gone, gone - came
        if came:
            shared = came & self._topics
            self._more.update(shared)
            self._topics |= came
            self._changed |= came - shared
        if gone:
            shared = gone.intersection(self._more)
            for name in shared:
                self._more[name] -= 1
                if not self._more[name]:
                    del self._more[name]
            self._topics -= gone - shared
            self._changed |= gone - shared
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

    def note_changed(self, names: Collection[str] | None) -> None:
        """Note that these topics were created, changed or deleted; None if any may have been."""
        self._changed.update(self._topics if names is None else self._topics.intersection(names))

    @property
    def changed(self) -> int:
        """How many names came or went, or have topics that changed, and were not taken since."""
        return len(self._changed)

    def take_changed(self, most: int = MAX_NAMES) -> Set[str]:
        """Names that came or went, or whose topics changed, each once."""
        if len(self._changed) > most:
            return {self._changed.pop() for _ in range(most)}
        changed, self._changed = self._changed, set()
        return changed

    def check(self, sets: Iterable[frozenset[str]]) -> None:
        """Assert that these are the sets of the members, in any order."""
        members = Counter(names for names in sets if names)
        assert self._members == members
        counted = Counter(name for names in members for name in names)
        assert self._topics == counted.keys()
        assert self._more == {name: count - 1 for name, count in counted.items() if count > 1}
        assert self.size == sum(map(len, members))
