"""The interface of timers, which make calls later.

Every coordinator takes timers as an argument, so that a test can simulate hours in a moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

CLOSE_ENOUGH: Final = 0.001
"""The seconds by which a timer may fire early."""


class Cancellable(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call.

        Does nothing if it has been made.
        """


class Timers(Protocol):
    """Makes calls later, in the same thread (`kafkapy.loop.timers.Timers`)."""

    def call_later(self, seconds: float, call: Callable[[], object]) -> Cancellable:
        """Call `call()` after `seconds`, unless the returned timer is cancelled first."""
        ...
