"""The broker's clocks.

Code that needs the time takes a clock as an argument, so that tests can control it.
"""

from __future__ import annotations

import time


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
