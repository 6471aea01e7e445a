"""Long work on the event loop, done in turns: others are served between two of them.

The work is a generator. It yields wherever others may be served, and its return value is the result. The
first turn is taken at once: work that is done within it costs no task. All long work of a broker shares the
turns after that. There is one turn between two looks at the sockets, however many requests are long.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Generator
from typing import Final, TypeAlias, TypeVar

TURN_SECONDS: Final = 0.004

VALUES_AT_ONCE: Final = 8_000
"""How many values a message may hold that is read, or written, on the event loop.

That is some milliseconds' work. Longer messages are read and written in a thread.
"""

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]


class Turns:
    """Who has the next turn on one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def finish(self, steps: Steps[T]) -> T:
        """The result of `steps`, the first turn at once."""
        end = take_turn(steps)
        if end is None:
            return await self.go_on(steps)
        result: T = end.value
        return result

    async def go_on(self, steps: Steps[T]) -> T:
        """The result of `steps`, which have had turns already."""
        try:
            while True:
                await self._next()
                end = take_turn(steps)
                if end is not None:
                    result: T = end.value
                    return result
        finally:
            steps.close()

    def _next(self) -> asyncio.Future[None]:
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._give)
        return turn

    def _give(self) -> None:
        turn = self._waiting.popleft()
        if not turn.done():  # its client may have gone away
            turn.set_result(None)
        if self._waiting:
            self._loop.call_soon(self._give)


def take_turn(steps: Steps[T]) -> StopIteration | None:
    """Go on with `steps` for one turn; return how they ended, or None."""
    now = time.monotonic
    stop_at = now() + TURN_SECONDS
    try:
        next(steps)
        while now() < stop_at:
            next(steps)
    except StopIteration as end:
        return end
    return None
