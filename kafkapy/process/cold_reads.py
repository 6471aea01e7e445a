"""Threads that load bytes of files into the page cache.

A read, or os.sendfile, blocks if the bytes are not in the page cache: some 45 ms for a megabyte of a busy
disk. On the event loop this would delay every client. So a thread reads the bytes first. The threads are
started on first use and serve nothing else: a slow disk delays only its own readers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, NamedTuple

from kafkapy.storage.disk.files import FileSlice

THREADS: Final = 4
"""The most threads of a broker for these reads."""


class ColdSlice(NamedTuple):
    """Bytes of a slice that are not in the page cache."""

    slice: FileSlice
    offset: int
    nbytes: int


class ColdReads:
    """The threads of one broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: Executor) -> None:
        """`pool` has THREADS threads, and no other users."""
        self._loop = loop
        self._pool = pool

    def load(self, cold: ColdSlice, done: Callable[[bool], None]) -> None:
        """Load `cold` into the page cache, then call `done` on the loop.

        `done` is told whether the bytes could be read.
        """
        held = [cold.slice.file.acquire()]

        def ended(is_loaded: bool) -> None:
            if held:  # a pool that failed to start a thread may have run the task all the same
                held.pop().release()
                done(is_loaded)

        def read() -> None:
            is_loaded = False
            try:
                with contextlib.suppress(OSError, MemoryError):  # the next reader gets the error
                    cold.slice.load(cold.offset, cold.nbytes)
                    is_loaded = True
            finally:
                with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                    self._loop.call_soon_threadsafe(ended, is_loaded)

        try:
            self._pool.submit(read)
        except RuntimeError:  # no thread can be started, or the pool is shut down
            self._loop.call_soon(ended, False)

    def close(self) -> None:
        """Stop the threads after their present work."""
        self._pool.shutdown()
