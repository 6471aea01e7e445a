"""The pace of compaction, which slows down while the broker serves clients.

A pass at full speed takes a core and the disk, and the p99 latency of producers grows several times. So while
the broker is busy, a pass rests after each chunk for four times as long as the chunk took, and has at most a
fifth of its full speed. On an idle broker it runs at full speed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from kafkapy.storage.cleaning.task import CleaningTask

REST: Final = 4.0
"""Seconds of rest for each second of work."""

LONGEST_REST: Final = 0.2
"""The longest rest in seconds. A chunk that took so long was itself waiting for something."""


class Pace:
    """The pace of one pass.

    Only one thread at a time may use it.
    """

    __slots__ = ("_clock", "_since", "is_busy")

    def __init__(self, is_busy: Callable[[], bool], *, clock: Callable[[], float] = time.monotonic) -> None:
        """`is_busy` says whether the broker serves clients at the moment."""
        self.is_busy = is_busy
        self._clock = clock
        self._since = clock()

    def begin(self) -> None:
        """Begin to measure the work of the pass now."""
        self._since = self._clock()

    def rest(self, task: CleaningTask) -> None:
        """Rest after a chunk.

        Raises CleaningAbortedError.
        """
        if self.is_busy():
            task.wait(min((self._clock() - self._since) * REST, LONGEST_REST))
        self._since = self._clock()
