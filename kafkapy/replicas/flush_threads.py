"""The threads in which a log directory is synced.

They take flushes in the order in which they were put, and hand each one back on the event loop when it ends.
Usually a flush only syncs one file. Then the queue does it (storage/disk/sync_queue.py), and no Python runs
in the thread.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from kafkapy.storage.disk.sync_queue import NO_FILE, SyncQueue, new_sync_queue, wake_descriptors

RETRY_SECONDS: Final = 0.25
"""The delay before a thread that lacks memory tries again to wake the loop."""

logger = logging.getLogger(__name__)


class Syncable(Protocol):
    """A flush whose file the queue may sync."""

    seconds: float
    """How long its sync took."""

    def not_synced(self, code: int) -> None:
        """Note, in a thread, that its sync or an earlier one failed with this errno."""


F = TypeVar("F", bound=Syncable)


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
        self._queue: SyncQueue | None = None
        """The queue, from the first thread on."""
        self._descriptors: tuple[int, int] = (NO_FILE, NO_FILE)
        """The descriptors that wake the loop, while there is a queue."""

    def __len__(self) -> int:
        return len(self._threads)

    def start_one(self) -> None:
        """Start another thread.

        Raises:
            RuntimeError: no thread can be started.
            OSError: no descriptor is left for the queue.
        """
        queue = self._queue or self._open_queue()
        thread = threading.Thread(target=self._work, args=(queue,), name="kafkapy-flush", daemon=True)
        thread.start()
        self._threads.append(thread)

    def put(self, flush: F, fd: int = NO_FILE) -> None:
        """Run a flush in the next free thread.

        If syncing the file `fd` is all that it has to do, the queue does that instead of `run`.
        """
        assert self._queue is not None
        self._queue.put(flush, fd)

    def close(self) -> None:
        """End the threads, after the flushes that they have."""
        queue, self._queue = self._queue, None
        if queue is not None:
            queue.close()
            for thread in self._threads:
                thread.join()
            self._threads.clear()
            self._loop.remove_reader(self._descriptors[0])
            self._take(queue)
            for descriptor in set(self._descriptors):
                os.close(descriptor)

    def _open_queue(self) -> SyncQueue:
        self._descriptors = reading, writing = wake_descriptors()
        self._queue = queue = new_sync_queue(reading, writing)
        self._loop.add_reader(reading, self._take, queue)
        return queue

    def _take(self, queue: SyncQueue) -> None:
        """Hand back the flushes that the queue has done."""
        for flush, seconds in queue.take():
            try:
                flush.seconds = seconds
                self._ended(flush)
            except Exception:
                logger.exception("A flush could not be completed")

    def _work(self, queue: SyncQueue) -> None:
        while (flush := queue.get()) is not None:
            if code := queue.failed():
                flush.not_synced(code)
            else:
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
