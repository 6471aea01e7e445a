"""Writes lines in a thread to a stream that may be slow or unread.

A write to a full pipe blocks until its reader reads, and Ctrl-S stops a terminal. The event loop must not
block, so `write` only queues a line. The queue is bounded: further lines are dropped and counted. When the
queue is empty again, a line reports their number.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import TextIO


class LineWriter:
    """Writes lines to a stream without blocking the caller."""

    max_bytes: int = 8 << 20
    """The limit of the queued lines, in characters."""

    max_lines: int = 10_000

    def __init__(
        self, stream: TextIO | None, dropped: Callable[[int], str] = "({} lines were dropped)".format
    ) -> None:
        """Write to the descriptor of `stream`.

        Args:
            stream: None, which Python uses for a closed standard stream, discards the lines.
            dropped: returns the line that reports a number of dropped lines.
        """
        self._fd = os.open(os.devnull, os.O_WRONLY) if stream is None else stream.fileno()
        self._dropped_line = dropped
        # Reentrant: a finalizer may log while a line is being queued.
        self._changed = threading.Condition(threading.RLock())
        self._queue: deque[str] = deque()
        self._size = 0
        self._dropped = 0
        self._writing = False
        """Whether the thread has lines that are not written yet."""
        self._thread: threading.Thread | None = None

    def write(self, line: str) -> None:
        """Queue `line`, to which a line end is added.

        May be called in any thread.
        """
        with self._changed:
            if len(self._queue) >= self.max_lines or self._size + len(line) > self.max_bytes:
                self._dropped += 1
                return
            self._queue.append(line)
            self._size += len(line)
            self._start()
            self._changed.notify_all()

    @property
    def queued(self) -> int:
        """The lines that the thread has not taken yet."""
        return len(self._queue)

    def flush(self, seconds: float) -> bool:
        """Wait at most `seconds` until all lines are written; return whether they are."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not (self._queue or self._dropped or self._writing), seconds
            )

    def _start(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="kafkapy-output", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return  # No thread can be started now; the next line tries again.
            self._thread = thread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._queue or self._dropped)
                lines = [*self._queue]
                if self._dropped and not lines:
                    lines = [self._dropped_line(self._dropped)]
                    self._dropped = 0
                self._queue.clear()
                self._size = 0
                self._writing = True
            try:
                self._write("".join(f"{line}\n" for line in lines).encode(errors="backslashreplace"))
            except MemoryError:
                with self._changed:
                    self._dropped += len(lines)

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except (
                BlockingIOError
            ):  # The stream is non-blocking: another program that shares it may have set that.
                poll = select.poll()  # select.select supports descriptors below 1024 only.
                poll.register(self._fd, select.POLLOUT)
                poll.poll()
            except OSError:
                return  # The stream has no reader, and there is nowhere to report that.
