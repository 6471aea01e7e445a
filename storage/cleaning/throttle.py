"""Limits the bytes that all cleaner threads read and write.

The limit is `log.cleaner.io.max.bytes.per.second`.

Source: Throttler.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from kafkapy.storage.cleaning.task import CleaningTask

_STEP_SECONDS = 1.0
"""The longest single wait of a thread, since the rate may change meanwhile."""


class Throttle:
    """A rate of bytes that several threads share."""

    __slots__ = ("_clock", "_free_at", "_lock", "_rate")

    def __init__(self, bytes_per_second: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = max(bytes_per_second, 1.0)
        self._clock = clock
        self._lock = threading.Lock()
        self._free_at = 0.0
        """The time when all bytes so far are within the rate."""

    def set_rate(self, bytes_per_second: float) -> None:
        """Change the rate.

        Bytes that passed at another rate no longer count.
        """
        with self._lock:
            rate = max(bytes_per_second, 1.0)
            if rate != self._rate:
                self._rate, self._free_at = rate, 0.0

    def reserve(self, nbytes: int) -> float:
        """Count `nbytes`; return the seconds after which more bytes are within the rate."""
        with self._lock:
            now = self._clock()
            self._free_at = max(self._free_at, now) + nbytes / self._rate
            return self._free_at - now

    def pass_through(self, nbytes: int, task: CleaningTask) -> None:
        """Count `nbytes`, and wait until they are within the rate.

        Raises CleaningAbortedError.
        """
        task.check()
        left = self.reserve(nbytes)
        while left > 0.001:
            task.wait(min(left, _STEP_SECONDS))
            left = self._free_at - self._clock()
