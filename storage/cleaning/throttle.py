"""Keeps the reading and writing of all cleaner threads within `log.cleaner.io.max.bytes.per.second`.

Source: Throttler.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from kafkapy.storage.cleaning.task import CleaningTask


class Throttle:
    """A rate of bytes that several threads share."""

    __slots__ = ("_clock", "_free_at", "_lock", "bytes_per_second")

    def __init__(self, bytes_per_second: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.bytes_per_second = bytes_per_second
        """May be changed at any time."""
        self._clock = clock
        self._lock = threading.Lock()
        self._free_at = 0.0
        """When everything that was let through so far is paid for."""

    def reserve(self, nbytes: int) -> float:
        """Let `nbytes` through; after how many seconds the next may follow."""
        with self._lock:
            now = self._clock()
            self._free_at = max(self._free_at, now) + nbytes / self.bytes_per_second
            return self._free_at - now

    def pass_through(self, nbytes: int, task: CleaningTask) -> None:
        """Wait until so many bytes more are within the rate. Raises CleaningAbortedError."""
        seconds = self.reserve(nbytes)
        if seconds > 0.001:
            task.wait(seconds)
        else:
            task.check()
