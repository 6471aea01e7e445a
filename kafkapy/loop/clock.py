"""The broker's clocks.

Code that needs the time takes a clock as an argument, so that tests can control it.
"""

from __future__ import annotations

import asyncio
import time

from kafkapy.loop.timers import Timers


class Clock:
    """Wall clock and monotonic clock of this machine."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, as in records.

        It may jump.
        """
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back, for deadlines."""
        return time.monotonic()

    def timers(self, loop: asyncio.AbstractEventLoop, of_requests: Timers) -> Timers:
        """The timers of a broker's deadlines; `of_requests` are those of requests that wait."""
        return of_requests

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`, as a periodic job does before its next time."""
        await asyncio.sleep(seconds)
