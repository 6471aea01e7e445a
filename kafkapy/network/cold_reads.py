"""Threads that read from the disk what is to be sent and is not in the page cache.

os.sendfile of such bytes waits for the disk, and on the event loop everybody would wait with it: some 45 ms
for a megabyte of a busy disk. So they are read in a thread first, into nothing, and sent when they are there.
The threads are started when they are first needed, and are not the broker's others: a slow disk holds up
those who read from it, and nobody else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from kafkapy.network.outbound import ColdSlice

THREADS: Final = 4


class ColdReads:
    """The threads of one server."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(THREADS, "kafkapy-reader")

    def load(self, cold: ColdSlice, done: Callable[[], None]) -> None:
        """Load `cold` into the page cache, then call `done` on the loop.

        `done` is called too when it cannot be read.
        """
        held = [cold.slice.file.acquire()]

        def loaded() -> None:
            if held:  # a pool that could start no thread may have read it all the same
                held.pop().release()
                done()

        def read() -> None:
            with contextlib.suppress(OSError, MemoryError):  # sendfile will say
                cold.slice.load(cold.offset, cold.nbytes)
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile, and all that it served
                self._loop.call_soon_threadsafe(loaded)

        try:
            self._pool.submit(read)
        except RuntimeError:  # no thread can be started, or no more is to be
            self._loop.call_soon(loaded)

    def close(self) -> None:
        """End the threads; those at work end it first."""
        self._pool.shutdown()
