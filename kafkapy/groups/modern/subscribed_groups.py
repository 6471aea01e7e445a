"""The base of those groups of one type whose members subscribe to topics.

They are consumer and share groups.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from kafkapy.groups.modern.groups import ModernGroups
from kafkapy.groups.modern.subscribed_group import SubscribedGroup
from kafkapy.loop.turns import Steps

FEW: Final = 500
"""The topics whose names and hashes a heartbeat may look at itself, which takes 2 ms at most."""

G = TypeVar("G", bound=SubscribedGroup[Any, Any])
K = TypeVar("K")
A = TypeVar("A")


class SubscribedGroups(ModernGroups[G, K, A], ABC):
    """The groups of one type, among all groups of a coordinator."""

    def look_at_topics(self, group_id: str, names: Sequence[str] | None) -> Steps[None] | None:
        """Steps to take before a heartbeat that names these topics.

        None, if it has little to look at.

        Names that are new to the group, and topics of the group that have changed, are looked at in turns. A
        heartbeat without these steps does the same at once.
        """
        group, count = self._groups.get(group_id), len(names or ())
        if not isinstance(group, self.group_class):
            return self.topics.look_at(names) if names and count > FEW else None
        self._notice_topics(group)
        count += group.existing.pending(self.topics)
        return self._look_at(group, names or ()) if count > FEW else None

    def _look_at(self, group: G, names: Sequence[str]) -> Steps[None]:
        yield from self.topics.look_at(names)
        yield from group.existing.catch_up(lambda: self.topics)
