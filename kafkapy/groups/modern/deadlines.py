"""The deadlines of members: for heartbeats, revocations and other answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from kafkapy.coordination.timers import Timers
from kafkapy.groups.modern.group import ModernGroup
from kafkapy.groups.modern.settings import SESSION_TIMEOUT, GroupSettings
from kafkapy.groups.modern.timeouts import Timeout
from kafkapy.loop.clock import Clock

G = TypeVar("G", bound=ModernGroup[Any, Any])


class Deadlines(Generic[G]):
    """Sets the deadlines of members of groups of type G."""

    def __init__(
        self,
        settings: GroupSettings,
        clock: Clock,
        timers: Timers,
        expired: Callable[[G, str, Timeout], object],
    ) -> None:
        """`expired` is called when a member is late."""
        self._settings = settings
        self._clock = clock
        self._timers = timers
        self._expired = expired

    def expect(self, group: G, member_id: str, timeout: Timeout, ms: int) -> None:
        """Expect something of a member within `ms` milliseconds from now."""
        group.timers.set(
            member_id,
            timeout,
            ms,
            lambda: self._expired(group, member_id, timeout),
            clock=self._clock,
            timers=self._timers,
        )

    def expect_heartbeat(self, group: G, member_id: str) -> None:
        """Expect a member's next heartbeat within the session timeout of its group."""
        self.expect(group, member_id, Timeout.SESSION, self._settings.of(group.group_id, SESSION_TIMEOUT))

    def expect_revocation(self, group: G, member_id: str) -> None:
        """Expect that a member gives up its surplus within its rebalance timeout."""
        self.expect(group, member_id, Timeout.REBALANCE, group.members[member_id].rebalance_timeout_ms)
