"""Runs long work on the event loop in turns, between which other requests are served.

The work is a generator. It yields wherever a turn may end, and its return value is the result. The first turn
is taken at once, so work that ends within it costs no task. After that, all long work of a broker shares the
turns: the loop polls the sockets after each turn, however many long requests there are. Work that awaits
other things in between is a coroutine, which asks its `Turn` whether it is over.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Generator, Hashable, Iterable
from typing import Any, Final, TypeAlias, TypeVar

TURN_SECONDS: Final = 0.004

VALUES_AT_ONCE: Final = 8_000
"""The most values of a message that is decoded or encoded on the event loop.

That takes a few milliseconds. Longer messages are decoded and encoded in a thread.
"""

FREED_AT_ONCE: Final = 1_000
"""The elements of an array that are freed before other work may run.

To free a hundred thousand objects takes 20 ms and more, in which no other Python code of the process runs.
"""

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)

Steps: TypeAlias = Generator[None, None, T]


class Turns:
    """The queue for turns on one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float = TURN_SECONDS) -> None:
        self._loop = loop
        self.seconds = seconds
        """How long a turn is."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def finish(self, steps: Steps[T]) -> T:
        """Return the result of `steps`; the first turn is taken at once."""
        end = take_turn(steps, self.seconds)
        return await self.go_on(steps) if end is None else end[0]

    async def go_on(self, steps: Steps[T]) -> T:
        """Return the result of `steps`, which have had turns already."""
        try:
            while True:
                await self._next()
                end = take_turn(steps, self.seconds)
                if end is not None:
                    return end[0]
        finally:
            steps.close()

    def begin(self) -> Turn:
        """Begin a turn of work that awaits things itself, so that it is no generator."""
        return Turn(self._next, self.seconds)

    def _next(self) -> asyncio.Future[None]:
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._give)
        return turn

    def _give(self) -> None:
        turn = self._waiting.popleft()
        if not turn.done():  # it is done if its client has gone away
            turn.set_result(None)
        if self._waiting:
            self._loop.call_soon(self._give)


class Turn:
    """A turn of a coroutine: it asks whether the turn is over, and then waits for the next one."""

    __slots__ = ("_next", "_seconds", "_stop_at")

    def __init__(self, next_turn: Callable[[], Awaitable[None]], seconds: float) -> None:
        self._next, self._seconds = next_turn, seconds
        self._stop_at = time.monotonic() + seconds

    def is_over(self) -> bool:
        """Whether other requests must be served now."""
        return time.monotonic() >= self._stop_at

    async def end(self) -> None:
        """Let others have their turns, and begin the next one."""
        await self._next()
        self._stop_at = time.monotonic() + self._seconds


def counted(things: Iterable[H]) -> Steps[Counter[H]]:
    """Count how many times each thing occurs."""
    counts: Counter[H] = Counter()
    for thing in things:
        yield
        counts[thing] += 1
    return counts


def freed(things: list[Any]) -> Steps[None]:
    """Free the elements of a long list, which nothing needs any more, in pieces."""
    while len(things) > FREED_AT_ONCE:
        yield
        del things[-FREED_AT_ONCE:]


def at_once(steps: Steps[T]) -> T:
    """Return the result of `steps`, without turns: few of them, or where nothing can wait."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        found: T = end.value
        return found


async def in_the_background(steps: Steps[T]) -> T:
    """Return the result of `steps`, which take turns with all else on the loop."""
    while True:
        end = take_turn(steps)
        if end is not None:
            return end[0]
        await asyncio.sleep(0)


def take_turn(steps: Steps[T], seconds: float = TURN_SECONDS) -> tuple[T] | None:
    """Continue `steps` for one turn.

    Return a tuple of their result if they ended, else None.
    """
    now = time.monotonic
    try:
        next(steps)  # a short one, and mostly the last: it needs no clock
        stop_at = now() + seconds
        while now() < stop_at:
            next(steps)
    except StopIteration as end:
        # Not the exception itself: the frame that has it is in its traceback, and this cycle would keep the
        # request and its frames until a garbage collection.
        return (end.value,)
    return None
