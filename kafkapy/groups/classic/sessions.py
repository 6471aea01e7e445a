"""Sessions: a member that is silent for its session timeout is removed from its group.

Every heartbeat, commit and answered request moves the member's deadline, but not its timer. If the timer
fires before the deadline, it is armed again for the rest. So 10,000 members have 10,000 timers, not one for
each heartbeat of the last 45 seconds.

A member that waits in JoinGroup or SyncGroup cannot send heartbeats, and does not expire. Its session starts
again when it gets its answer. A new member is different: it may expire while it waits, because its client may
have given up and joined again under another id.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkapy.coordination.timers import CLOSE_ENOUGH, Timers
from kafkapy.groups.classic.group import ClassicGroup
from kafkapy.groups.classic.member import Member
from kafkapy.loop.clock import Clock


class Sessions:
    """Watches the members of all groups."""

    def __init__(self, clock: Clock, timers: Timers, expired: Callable[[ClassicGroup, Member], None]) -> None:
        self._clock = clock
        self._timers = timers
        self._expired = expired
        """Called for a member that has been silent for too long, while it is still in its group."""

    def touch(self, group: ClassicGroup, member: Member, timeout_ms: int | None = None) -> None:
        """Let the member's session expire its session timeout, or `timeout_ms`, from now."""
        timeout = (member.session_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        deadline = self._clock.monotonic() + timeout
        member.session_deadline = deadline
        if member.session_timer is not None:
            if member.session_timer_at <= deadline:
                return
            member.session_timer.cancel()
        self._arm(group, member, timeout)

    def _arm(self, group: ClassicGroup, member: Member, seconds: float) -> None:
        member.session_timer_at = member.session_deadline
        member.session_timer = self._timers.call_later(seconds, lambda: self._look(group, member))

    def _look(self, group: ClassicGroup, member: Member) -> None:
        member.session_timer = None
        remaining = member.session_deadline - self._clock.monotonic()
        if remaining > CLOSE_ENOUGH:
            self._arm(group, member, remaining)
        elif not member.is_waiting:
            self._expired(group, member)
