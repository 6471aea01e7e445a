"""The deadlines of the members of consumer groups.

Every heartbeat moves a deadline, but not its timer. If the timer fires before the deadline, it is armed again
for the rest. So a member costs one timer for its session, not one for each heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from kafkapy.coordination.timers import CLOSE_ENOUGH, Cancellable, Timers
from kafkapy.loop.clock import Clock


class Timeout(Enum):
    """The kinds of deadlines.

    The text says what happened then.
    """

    SESSION = "the member session expired"
    REBALANCE = "it failed to give up its partitions within the rebalance timeout"
    JOIN = "the classic member failed to join within the rebalance timeout"
    SYNC = "the member failed to sync within timeout"


@dataclass(slots=True, eq=False)
class _Deadline:
    at: float
    """Seconds of the monotonic clock."""
    expired: Callable[[], object]
    timer: Cancellable
    timer_at: float
    """When the timer fires: at the deadline or before it."""


class MemberTimers:
    """The deadlines of one group's members."""

    def __init__(self) -> None:
        self._deadlines: dict[tuple[str, Timeout], _Deadline] = {}

    def is_set(self, member_id: str, timeout: Timeout) -> bool:
        """Whether the deadline is set."""
        return (member_id, timeout) in self._deadlines

    def cancel(self, member_id: str, timeout: Timeout) -> None:
        """Remove a deadline, if there is one."""
        deadline = self._deadlines.pop((member_id, timeout), None)
        if deadline is not None:
            deadline.timer.cancel()

    def cancel_member(self, member_id: str) -> None:
        """Remove all deadlines of a member."""
        for timeout in Timeout:
            self.cancel(member_id, timeout)

    def cancel_all(self) -> None:
        """Remove all deadlines."""
        for deadline in self._deadlines.values():
            deadline.timer.cancel()
        self._deadlines.clear()

    def set(
        self,
        member_id: str,
        timeout: Timeout,
        ms: int,
        expired: Callable[[], object],
        *,
        clock: Clock,
        timers: Timers,
    ) -> None:
        """Call `expired` in `ms` milliseconds, instead of when it was to be called before."""
        key = member_id, timeout
        at = clock.monotonic() + ms / 1000
        deadline = self._deadlines.get(key)
        if deadline is not None and deadline.timer_at <= at:
            deadline.at = at
            deadline.expired = expired
            return
        if deadline is not None:
            deadline.timer.cancel()

        def look() -> None:
            found = self._deadlines.pop(key)
            left = found.at - clock.monotonic()
            if left > CLOSE_ENOUGH:
                found.timer = timers.call_later(left, look)
                found.timer_at = found.at
                self._deadlines[key] = found
            else:
                found.expired()

        self._deadlines[key] = _Deadline(at, expired, timers.call_later(ms / 1000, look), at)
