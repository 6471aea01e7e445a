"""Stops a run at SIGINT or SIGTERM, or at an event of the program that runs it.

After the first signal the present batch is finished. A second signal abandons it, which is safe too. A signal
handler only sets an event: Python runs it in the main thread, which may be waiting for a response of the JVM
on the same connection that the handler would use.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final, Self

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    """A context manager that handles the signals and restores their handlers at its end."""

    def __init__(self, asked: threading.Event | None = None) -> None:
        self.asked = asked or threading.Event()
        self.abandon = threading.Event()
        self._before: dict[signal.Signals, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.getsignal(number) for number in _SIGNALS}
            self.take_signals()
        return self

    def take_signals(self) -> None:
        """Installs the handlers.

        Called again after a SparkContext is created, since it handles SIGINT itself.
        """
        for number in self._before:
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked.is_set():
            self.abandon.set()
        self.asked.set()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
