"""Finds out whether a file system takes writes, before the event loop writes to it.

A write to a frozen file system (fsfreeze, an LVM snapshot, a guest agent that quiesces a virtual machine)
blocks its thread in the kernel until the file system is thawed, and nothing can interrupt it. Syncs say
nothing about that: a frozen file system has everything on disk, so fdatasync succeeds at once. So a thread
writes first. Its write has no bytes: it passes the gate of the kernel that a freeze closes
(`sb_start_write`), and changes nothing, not even a timestamp.

    passes()  ->  the last write has passed a moment ago: yes, without the thread
              ->  the thread writes, and is back in time: yes
              ->  it is in its system call for longer than `patience`: no, until it is back

Only one call waits for a write that does not come back; the others get their answer at once. A thread that
has no processor yet is not late: the patience begins with its system call. A freeze that begins within
`fresh` seconds after a write that passed, with another write in that time, is not noticed.

There are two twins. The compiled one (`_write_probe.c`) is used if it was built, unless KAFKAPY_PURE_PYTHON
is set in the environment.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from kafkapy.protocol.compiled import compiled_twin

PATIENCE_SECONDS: Final = 0.02
"""How long a write may take that has no bytes: as long as a request may hold the event loop."""

_LOOK_SECONDS: Final = 0.005


class WriteProbe(Protocol):
    """The interface of both twins."""

    def passes(self) -> bool:
        """Whether a write would pass now; the caller writes next, in the same thread."""

    def close(self) -> None:
        """End the thread; if it is stuck, it ends by itself later."""


class PureWriteProbe:
    """The twin in Python."""

    def __init__(self, fd: int, fresh: float, patience: float) -> None:
        """Probe the file system of an open file, which may be written.

        `fresh` is how many seconds a write that passed is taken for a sign that the next one will.
        """
        self._fd = fd
        self._fresh = fresh
        self._patience = patience
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_wanted = self._is_out = self._is_late = self._closed = False
        self._entered = 0.0
        """When the thread entered its system call; 0 before that."""
        self._proven = 0.0
        """When a write passed."""

    def passes(self) -> bool:
        """Whether a write would pass now."""
        with self._changed:
            now = time.monotonic()
            if self._closed or (not self._is_out and now - self._proven < self._fresh):
                self._proven = now
                return True
            if self._is_late:
                return False
            if not self._is_out and not self._ask():
                return True
            while self._is_out and not self._is_overdue():
                self._changed.wait(_LOOK_SECONDS)
            self._is_late = self._is_out
            return not self._is_late

    def _is_overdue(self) -> bool:
        return self._entered > 0 and time.monotonic() - self._entered > self._patience

    def _ask(self) -> bool:
        """Ask the thread, which is started first if necessary; False if none can be started."""
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="kafkapy-probe", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
            self._thread = thread
        self._entered = 0.0
        self._is_wanted = self._is_out = True
        self._changed.notify_all()
        return True

    def _work(self) -> None:
        with self._changed:
            while True:
                while not self._is_wanted and not self._closed:
                    self._changed.wait()
                if not self._is_wanted:
                    return
                self._is_wanted = False
                self._entered = time.monotonic()
                self._changed.release()
                try:
                    with contextlib.suppress(OSError):  # the write that follows gets the error
                        os.pwrite(self._fd, b"", 0)
                finally:
                    self._changed.acquire()
                self._is_out = self._is_late = False
                self._proven = time.monotonic()
                self._changed.notify_all()

    def close(self) -> None:
        """End the thread; if it is stuck, it ends by itself later."""
        with self._changed:
            thread, self._thread = self._thread, None
            is_stuck, self._closed = self._is_late, True
            self._changed.notify_all()
        if thread is not None and not is_stuck:
            thread.join()


new_write_probe: Callable[[int, float, float], WriteProbe] = compiled_twin(
    "kafkapy.storage.disk._write_probe", "WriteProbe", PureWriteProbe
)
"""Makes a probe from an open file, and the two times of `PureWriteProbe`."""
