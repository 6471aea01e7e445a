"""The interface through which the state machine stores a classic group's metadata.

It is an argument of the state machine, so that tests can let any write fail. Replies and `done` must not call
the state machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kafkapy.coordination.topic_log import Done
from kafkapy.groups.classic.group import ClassicGroup


class GroupStore(Protocol):
    """Stores the metadata of groups."""

    def store_group(self, group: ClassicGroup, assignments: Mapping[str, bytes], done: Done) -> None:
        """Write the group as it is now, with these assignments by member id.

        `done` is called when the record is committed or its write has failed, possibly before this returns.
        """
        ...
