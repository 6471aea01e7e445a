"""All groups of a coordinator by their ids, with their memory in total."""

from __future__ import annotations

from typing import Any, Final

from kafkapy.groups.group import Group
from kafkapy.groups.member_memory import MemberMemory

LONG_GROUP_ID: Final = 1024


class Groups(dict[str, Group]):
    """The groups by id; their totals follow as groups come and go.

    It is a dict because each commit looks its group up. Groups are put in and taken out by `groups[id] =`,
    `del`, `pop` and `setdefault` only.
    """

    def __init__(self) -> None:
        super().__init__()
        self.members = MemberMemory()
        """The memory that the members of all groups take."""
        self.long_ids = 0
        """The characters of all ids that are longer than LONG_GROUP_ID."""

    def __setitem__(self, group_id: str, group: Group) -> None:
        self._left(self.get(group_id))
        super().__setitem__(group_id, group)
        group.memory.enter(self.members)
        if len(group_id) > LONG_GROUP_ID:
            self.long_ids += len(group_id)

    def __delitem__(self, group_id: str) -> None:
        self.pop(group_id)

    def pop(self, group_id: str) -> Group:  # type: ignore[override]
        """Take a group out; raises KeyError if there is none of this id."""
        group = super().pop(group_id)
        self._left(group)
        return group

    def setdefault(self, group_id: str, group: Group) -> Group:
        """Put a group in unless there is one of its id; return the one that is there then."""
        found = self.get(group_id)
        if found is None:
            self[group_id] = found = group
        return found

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Not for groups: the totals would not follow."""
        raise NotImplementedError

    def _left(self, group: Group | None) -> None:
        if group is not None:
            group.memory.leave()
            if len(group.group_id) > LONG_GROUP_ID:
                self.long_ids -= len(group.group_id)
