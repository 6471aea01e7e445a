"""A limit on what all cleaner threads read and write.

It is `log.cleaner.io.max.bytes.per.second`.

Source: Throttler.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from kafkapy.storage.cleaning.task import CleaningTask

_STEP_SECONDS = 1.0
"""How long a thread waits at once: the rate may change meanwhile."""


class Throttle:
    """A rate of bytes that several threads share."""

    __slots__ = ("_clock", "_free_at", "_lock", "_rate")

    def __init__(self, bytes_per_second: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = max(bytes_per_second, 1.0)
        self._clock = clock
        self._lock = threading.Lock()
        self._free_at = 0.0
        """When everything that was let through so far is paid for."""

    def set_rate(self, bytes_per_second: float) -> None:
        """Change the rate, at once: what was let through at another rate no longer counts."""
        with self._lock:
            rate = max(bytes_per_second, 1.0)
            if rate != self._rate:
                self._rate, self._free_at = rate, 0.0

    def reserve(self, nbytes: int) -> float:
        """Let `nbytes` through; return after how many seconds the next may follow."""
        with self._lock:
            now = self._clock()
            self._free_at = max(self._free_at, now) + nbytes / self._rate
            return self._free_at - now

    def pass_through(self, nbytes: int, task: CleaningTask) -> None:
        """Wait until so many more bytes are within the rate. Raises CleaningAbortedError."""
        task.check()
        left = self.reserve(nbytes)
        while left > 0.001:
            task.wait(min(left, _STEP_SECONDS))
            left = self._free_at - self._clock()
