"""Whether the event loop serves anybody, judged by the CPU time that its thread uses.

Other threads look at it. A request costs the loop a few hundred microseconds. Its own timers cost much less
in the same time, when nobody asks for anything. So nothing has to be counted on the way of a request.
"""

from __future__ import annotations

import threading
import time
from typing import Final

WINDOW_SECONDS: Final = 0.005
"""The least time between two looks."""

LEAST_CPU_SECONDS: Final = 0.0001
"""Of a window in which something was served."""

BUSY_SECONDS: Final = 0.1
"""How long the loop counts as busy after that."""


class LoopLoad:
    """The load of an event loop; made on that loop.

    Where a thread's CPU time cannot be read (macOS), the loop counts as busy.
    """

    def __init__(self) -> None:
        clock_of = getattr(time, "pthread_getcpuclockid", None)
        self._cpu_clock: int | None = None if clock_of is None else clock_of(threading.get_ident())
        self._looked_at = time.monotonic()
        self._cpu = self._cpu_seconds()
        self._busy_until = 0.0

    def is_busy(self) -> bool:
        """In any thread, as long as the loop's lives."""
        if self._cpu_clock is None:
            return True
        now = time.monotonic()
        if now - self._looked_at >= WINDOW_SECONDS:
            cpu = self._cpu_seconds()
            # Per window: after a long time without a look, a little CPU is nobody's request.
            windows = (now - self._looked_at) / WINDOW_SECONDS
            if cpu - self._cpu >= LEAST_CPU_SECONDS * min(windows, 10):
                self._busy_until = now + BUSY_SECONDS
            self._looked_at, self._cpu = now, cpu
        return now < self._busy_until

    def _cpu_seconds(self) -> float:
        return 0.0 if self._cpu_clock is None else time.clock_gettime(self._cpu_clock)
