"""The pace of compaction: it gives way to those who wait for the broker.

Compaction is in no hurry; a producer that waits for its acknowledgement is. A pass at full speed takes a core
and the disk, and the p99 of producers grows several times. So while the broker serves anybody, a pass rests
after each chunk for four times as long as the chunk took: it then has at most a fifth of what it could have.
On a broker that serves nobody it goes at full speed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from kafkapy.storage.cleaning.task import CleaningTask

REST: Final = 4.0
"""Seconds of rest for each second of work."""

LONGEST_REST: Final = 0.2
"""Seconds: work that took this long waited for something itself."""


class Pace:
    """The pace of one pass. One thread uses it at a time."""

    __slots__ = ("_clock", "_since", "is_busy")

    def __init__(self, is_busy: Callable[[], bool], *, clock: Callable[[], float] = time.monotonic) -> None:
        """`is_busy` says whether the broker serves anybody just now."""
        self.is_busy = is_busy
        self._clock = clock
        self._since = clock()

    def begin(self) -> None:
        """Begin to count work here; what came before was somebody else's."""
        self._since = self._clock()

    def rest(self, task: CleaningTask) -> None:
        """Rest after a chunk. Raises CleaningAbortedError."""
        if self.is_busy():
            task.wait(min((self._clock() - self._since) * REST, LONGEST_REST))
        self._since = self._clock()
