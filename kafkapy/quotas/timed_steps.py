"""A coroutine whose time on the event loop is added to its request."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from kafkapy.protocol.frames import RequestHeader


class TimedSteps(Coroutine[Any, Any, Any]):
    """Runs another coroutine, and adds the time of each of its steps to `header.spent`."""

    __slots__ = ("_coroutine", "_header")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], header: RequestHeader) -> None:
        self._coroutine = coroutine
        self._header = header

    def send(self, value: Any) -> Any:
        """Take the next step."""
        return self._timed(self._coroutine.send, value)

    def throw(self, *error: Any) -> Any:
        """Take the next step with an error."""
        return self._timed(self._coroutine.throw, *error)

    def close(self) -> None:
        """End the coroutine."""
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()

    def _timed(self, step: Callable[..., Any], *arguments: Any) -> Any:
        header = self._header
        header.resumed_at = time.monotonic()
        try:
            return step(*arguments)
        finally:
            header.spent += time.monotonic() - header.resumed_at
            header.resumed_at = 0.0
