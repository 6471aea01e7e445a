"""Lines for a stream that may be slow, or that nobody reads, written by a thread.

Writing to a pipe that is full waits until somebody reads it, and a terminal can be stopped with Ctrl-S. The
event loop must not wait for that: `write` only queues. What is queued is bounded; lines beyond it are
dropped and counted, and when the queue is empty again a line says how many they were.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, TextIO

MAX_LINES: Final = 10_000
MAX_BYTES: Final = 8 << 20
"""Of the queued lines; characters count as bytes."""


class LineWriter:
    """Writes to a stream without keeping anybody waiting."""

    def __init__(
        self, stream: TextIO | None, dropped: Callable[[int], str] = "({} lines were dropped)".format
    ) -> None:
        """Write to the descriptor of `stream`.

        Args:
            stream: None, as Python has it for a standard stream that is closed, means nowhere.
            dropped: makes the line about so many dropped lines.
        """
        self._fd = os.open(os.devnull, os.O_WRONLY) if stream is None else stream.fileno()
        self._dropped_line = dropped
        # Reentrant: the garbage collector may have something to log while a line is queued.
        self._changed = threading.Condition(threading.RLock())
        self._queue: deque[str] = deque()
        self._size = 0
        self._dropped = 0
        self._writing = False
        """The thread has lines that are not written."""
        self._thread: threading.Thread | None = None

    def write(self, line: str) -> None:
        """Have `line` written, with a line end. In any thread."""
        with self._changed:
            if len(self._queue) >= MAX_LINES or self._size + len(line) > MAX_BYTES:
                self._dropped += 1
                return
            self._queue.append(line)
            self._size += len(line)
            self._start()
            self._changed.notify_all()

    def flush(self, seconds: float) -> bool:
        """Wait until all is written, for `seconds` at most; return whether it is."""
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
                return  # With the next line, perhaps.
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
            except BlockingIOError:  # Somebody made it non-blocking: it may be shared with other programs.
                poll = select.poll()  # select.select knows no descriptor from 1024 on.
                poll.register(self._fd, select.POLLOUT)
                poll.poll()
            except OSError:
                return  # Nobody is there to read it, or to be told.
