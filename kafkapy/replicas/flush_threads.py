"""The threads in which a log directory is synced.

They take flushes in the order in which they were put, and hand each one back on the event loop when it ends.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, Generic, TypeVar

RETRY_SECONDS: Final = 0.25
"""The delay before a thread that lacks memory tries again to wake the loop."""

F = TypeVar("F")


class FlushThreads(Generic[F]):
    """Threads that are started one by one.

    Flushes are put and taken back on the event loop.
    """

    def __init__(self, run: Callable[[F], None], ended: Callable[[F], None]) -> None:
        """Use `run` in the threads and `ended` on this loop.

        `run` raises nothing. It is called with a flush, and `ended` with the same flush after that.
        """
        self._run = run
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._threads: list[threading.Thread] = []
        self._flushes: SimpleQueue[F | None] = SimpleQueue()

    def __len__(self) -> int:
        return len(self._threads)

    def start_one(self) -> None:
        """Start another thread.

        Raises:
            RuntimeError: no thread can be started.
        """
        thread = threading.Thread(target=self._work, name="kafkapy-flush", daemon=True)
        thread.start()
        self._threads.append(thread)

    def put(self, flush: F) -> None:
        """Run a flush in the next free thread."""
        self._flushes.put(flush)

    def close(self) -> None:
        """End the threads, after the flushes that they have."""
        for _ in self._threads:
            self._flushes.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _work(self) -> None:
        while (flush := self._flushes.get()) is not None:
            self._run(flush)
            self._tell(flush)

    def _tell(self, flush: F) -> None:
        """Wake the loop.

        It costs less than a future, and nothing else waits for one.
        """
        while True:
            try:
                self._loop.call_soon_threadsafe(self._ended, flush)
            except MemoryError:
                time.sleep(RETRY_SECONDS)
            except RuntimeError:
                return  # The loop is closed, and no request waits any more.
            else:
                return
