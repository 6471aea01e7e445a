"""The queue between the event loop and the threads that sync files.

    put(work, fd)       ->  get(), in a thread, syncs the file, takes more  ->  the loop is woken: take()
    put(work, NO_FILE)  ->  get() returns the work to its thread

There are two twins. The compiled one (`_sync_queue.c`) is used if it was built, unless KAFKAPY_PURE_PYTHON is
set in the environment. Its threads sync without the GIL. With the twin in Python a thread waits for the GIL
before and after each sync, and makes the event loop wait for it.

A failed sync is final: no other sync is begun in the queue. That work, and all after it, is returned to the
threads, which find the error with `failed`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, Protocol

from kafkapy.protocol.compiled import compiled_twin
from kafkapy.storage.disk.files import File, FileSystem

CAPACITY: Final = 64
"""The most work in a queue: put, and neither returned to a thread nor taken."""

NO_FILE: Final = -1


class SyncQueue(Protocol):
    """The interface of both twins."""

    def put(self, work: Any, fd: int, /) -> None:
        """Have a thread sync the open file `fd`; with NO_FILE, return `work` to the thread.

        Raises:
            OverflowError: there is too much work already.
        """

    def get(self) -> Any:
        """Sync files in this thread until there is other work, or a sync fails; return that work.

        None if the queue is closed, and nothing waits any more.
        """

    def failed(self) -> int:
        """The errno of the first sync that failed, or 0."""

    def take(self) -> list[tuple[Any, float]]:
        """The syncs that have succeeded, as (work, seconds).

        To be called when the descriptor `read_fd` is readable.
        """

    def close(self) -> None:
        """End the threads after the work that waits."""


class PureSyncQueue:
    """The twin in Python."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        """Use descriptors that do not block: what is written to the second wakes the event loop."""
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._waiting: SimpleQueue[tuple[Any, int] | None] = SimpleQueue()
        self._ended: deque[tuple[Any, float]] = deque()
        self._files = FileSystem()
        self._lock = threading.Lock()
        self._admitted = 0
        self._error = 0
        """The errno of the first sync that failed."""

    def put(self, work: Any, fd: int, /) -> None:
        """Queue work."""
        with self._lock:
            if self._admitted == CAPACITY:
                raise OverflowError("too many flushes")
            self._admitted += 1
        self._waiting.put((work, fd))

    def get(self) -> Any:
        """Sync files; return other work, or None if the queue is closed."""
        while (job := self._waiting.get()) is not None:
            work, fd = job
            began = time.monotonic()
            if fd < 0 or self._error or not self._sync(fd):
                with self._lock:
                    self._admitted -= 1
                return work
            self._ended.append((work, time.monotonic() - began))
            os.write(self._write_fd, (1).to_bytes(8, "little"))
        self._waiting.put(None)  # for the next thread
        return None

    def _sync(self, fd: int) -> bool:
        """Sync a file; return whether that succeeded."""
        try:
            self._files.sync_data(File(fd))
        except OSError as error:
            with self._lock:
                self._error = self._error or error.errno or errno.EIO
            return False
        return True

    def failed(self) -> int:
        """The errno of the first sync that failed, or 0."""
        return self._error

    def take(self) -> list[tuple[Any, float]]:
        """The syncs that have succeeded."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._read_fd, 8)
        ended = [self._ended.popleft() for _ in range(len(self._ended))]
        with self._lock:
            self._admitted -= len(ended)
        return ended

    def close(self) -> None:
        """End the threads after the work that waits."""
        self._waiting.put(None)


new_sync_queue: Callable[[int, int], SyncQueue] = compiled_twin(
    "kafkapy.storage.disk._sync_queue", "SyncQueue", PureSyncQueue
)
"""Makes a queue from the descriptor that the event loop watches, and the one that wakes it."""


def wake_descriptors() -> tuple[int, int]:
    """Two descriptors that do not block: a write to the second makes the first readable.

    They may be the same.

    Raises:
        OSError: no descriptor is left.
    """
    if hasattr(os, "eventfd"):
        descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        return descriptor, descriptor
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    return reading, writing
