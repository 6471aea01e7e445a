"""Where a classic group's metadata is kept, as its state machine sees it.

It is an argument, so that a test can fail any write. A reply or a `done` that is called back must not call
into the state machine again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kafkapy.coordination.topic_log import Done
from kafkapy.groups.classic.group import ClassicGroup


class GroupStore(Protocol):
    """Where a group's metadata is kept."""

    def store_group(self, group: ClassicGroup, assignments: Mapping[str, bytes], done: Done) -> None:
        """Write the group as it is now, its members with these assignments.

        `done` is called once the record is durable or has failed, possibly before this returns.
        """
        ...
