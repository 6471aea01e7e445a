"""Timers: calls that are made later.

Every coordinator takes them as an argument, so that a test can drive it through hours in a moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Cancellable(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Never call; harmless when it has been called."""


class Timers(Protocol):
    """Calls later, on the same thread (`kafkapy.process.timers.Timers`)."""

    def call_later(self, seconds: float, call: Callable[[], object]) -> Cancellable:
        """Call `call()` after `seconds`, unless the timer returned is cancelled before."""
        ...
