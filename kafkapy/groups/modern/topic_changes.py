"""Which topics have changed lately: groups find out for themselves what concerns them.

A change of the metadata costs no walk over the groups, of which there may be hundreds of thousands, all with
the same topic. A group asks at its next heartbeat.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

MOST_NAMES: Final = 100
"""The names that are kept. A group that has missed more looks at all its topics."""


class TopicChanges:
    """The last changes of topics, which are numbered."""

    def __init__(self) -> None:
        self.count = 0
        """The number of changes until now."""
        self._last: deque[str] = deque(maxlen=MOST_NAMES)

    def add(self, names: Iterable[str]) -> None:
        """Note that topics were created, changed or deleted."""
        for name in names:
            self.count += 1
            self._last.append(name)

    def since(self, count: int) -> Sequence[str] | None:
        """The topics that changed since there were so many changes; None if they are too many."""
        missed = self.count - count
        if missed > len(self._last):
            return None
        return [self._last[-place] for place in range(1, missed + 1)]
