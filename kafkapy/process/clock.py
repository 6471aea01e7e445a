"""The broker's clocks.

Everything that asks for the time takes one as an argument, so that a test can turn it.
"""

from __future__ import annotations

import time


class Clock:
    """Wall clock and monotonic clock of this machine."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 (what goes into records); may jump."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds that only go forward (what deadlines are measured with)."""
        return time.monotonic()
