"""Tells whether the event loop is serving requests, by the CPU time of its thread.

Other threads ask. A request costs the loop a few hundred microseconds; its timers cost much less while there
are no requests. So no request has to be counted.
"""

from __future__ import annotations

import threading
import time
from typing import Final

WINDOW_SECONDS: Final = 0.005
"""The least time between two looks."""

LEAST_CPU_SECONDS: Final = 0.0001
"""The share of CPU time above which a window counts as busy."""

BUSY_SECONDS: Final = 0.1
"""How long the loop counts as busy after that."""


class LoopLoad:
    """The load of an event loop.

    It is created on that loop.

    If a thread's CPU time cannot be read (macOS), the loop counts as busy.
    """

    def __init__(self) -> None:
        clock_of = getattr(time, "pthread_getcpuclockid", None)
        self._cpu_clock: int | None = None if clock_of is None else clock_of(threading.get_ident())
        self._looked_at = time.monotonic()
        self._cpu = self._cpu_seconds()
        self._busy_until = 0.0

    def is_busy(self) -> bool:
        """Whether the loop serves requests.

        May be called in any thread while the loop's thread lives.
        """
        if self._cpu_clock is None:
            return True
        now = time.monotonic()
        if now - self._looked_at >= WINDOW_SECONDS:
            cpu = self._cpu_seconds()
            # Relative to the window: over a long time, the timers alone use some CPU time.
            windows = (now - self._looked_at) / WINDOW_SECONDS
            if cpu - self._cpu >= LEAST_CPU_SECONDS * min(windows, 10):
                self._busy_until = now + BUSY_SECONDS
            self._looked_at, self._cpu = now, cpu
        return now < self._busy_until

    def _cpu_seconds(self) -> float:
        return 0.0 if self._cpu_clock is None else time.clock_gettime(self._cpu_clock)
