"""What the state machine needs of the outside: calls later, and a place to keep a group's metadata.

Both are arguments, so that a test can drive a group through hours in a moment and fail any write. A
reply or a `done` that is called back must not call into the state machine again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from kafkapy.groups.member import Cancellable
from kafkapy.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kafkapy.groups.group import Group


class Timers(Protocol):
    """Calls later, on the same thread (`kafkapy.process.timers.Timers`)."""

    def call_later(self, seconds: float, call: Callable[[], object]) -> Cancellable:
        """Call `call()` after `seconds`, unless the timer returned is cancelled before."""
        ...


class GroupStore(Protocol):
    """Where a group's metadata is kept."""

    def store_group(
        self, group: Group, assignments: Mapping[str, bytes], done: Callable[[ErrorCode], None]
    ) -> None:
        """Write the group as it is now, its members with these assignments; `done` is called once it is
        durable or has failed, possibly before this returns."""
        ...
