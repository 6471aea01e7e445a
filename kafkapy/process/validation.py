"""Threads for work on requests that takes long, shared out fairly between connections.

Most of it is validation of what producers send; long messages are decoded and encoded here, too. A few
kilobytes may decompress to `max.decompressed.message.bytes`. So a connection that sends nothing but such
batches costs a core, and forty of them would cost all. Connections that have cost little go first, and the
last thread is only for those: an ordinary batch never waits for forty bombs. The others get one thread less
than there are cores, so that the event loop has a core as well.

What a connection has cost is a debt that it pays off at SHARE of a second each second. It is kept as the time
at which it will be paid (`Connection.validation_paid_at`), for no longer than MEMORY_SECONDS.
"""

from __future__ import annotations

import asyncio
import heapq
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Final, Protocol, TypeVar

SHARE: Final = 0.1
"""Of one thread: a connection that takes less is never in debt for long."""

LIGHT_SECONDS: Final = 0.2
"""A debt that is paid within this time does not count."""

MEMORY_SECONDS: Final = 10.0

TURN_SECONDS: Final = 0.02
"""After so much CPU time a request with many batches gives way to others, before its next batch."""

T = TypeVar("T")


class Payer(Protocol):
    """A connection, as far as the cost of its batches goes."""

    validation_paid_at: float
    """When its validation will have cost no more than its share; 0.0 before the first."""


class Validation:
    """The threads, and the work that waits for one."""

    def __init__(self, pool: ThreadPoolExecutor, threads: int) -> None:
        """`pool` has `threads` threads, at least two, and nobody else uses it."""
        self._loop = asyncio.get_running_loop()
        self._pool = pool
        self._threads = threads
        self._waiting: list[tuple[float, int, asyncio.Future[bool]]] = []
        """Heap: when the connection's debt is paid, a number, and what ends the wait."""
        self._numbers = count()
        self._running = 0
        self._running_in_debt = 0

    async def run(self, connection: Payer, call: Callable[[], T]) -> T:
        """Run `call` in a thread when it is the connection's turn."""
        turn: asyncio.Future[bool] = self._loop.create_future()
        heapq.heappush(self._waiting, (connection.validation_paid_at, next(self._numbers), turn))
        self._go_on()
        try:
            in_debt = await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._end(in_debt=turn.result())
            raise
        # A thread cannot be stopped: whoever gives up, it is taken until it ends.
        running = self._loop.run_in_executor(self._pool, _timed, call)

        def ended(running: asyncio.Future[tuple[T, float]]) -> None:
            if not running.cancelled() and running.exception() is None:
                now, (_, seconds) = self._loop.time(), running.result()
                paid_at = max(connection.validation_paid_at, now) + seconds / SHARE
                connection.validation_paid_at = min(paid_at, now + MEMORY_SECONDS)
            self._end(in_debt=in_debt)

        running.add_done_callback(ended)
        result, _ = await asyncio.shield(running)
        return result

    def _end(self, *, in_debt: bool) -> None:
        self._running -= 1
        self._running_in_debt -= in_debt
        self._go_on()

    def close(self) -> None:
        """End the threads; those at work end it first."""
        self._pool.shutdown()

    def _go_on(self) -> None:
        """Give the free threads to those that have cost least."""
        while self._waiting and self._running < self._threads:
            paid_at, _, turn = self._waiting[0]
            in_debt = paid_at > self._loop.time() + LIGHT_SECONDS
            if in_debt and self._running_in_debt >= self._threads - 1:
                return
            heapq.heappop(self._waiting)
            if not turn.done():
                self._running += 1
                self._running_in_debt += in_debt
                turn.set_result(in_debt)


def _timed(call: Callable[[], T]) -> tuple[T, float]:
    """What `call` returns, and the CPU seconds that it took."""
    start = time.thread_time()
    result = call()
    return result, time.thread_time() - start


def validation_threads() -> int:
    """How many a broker has: as many as it may use cores."""
    if hasattr(os, "sched_getaffinity"):
        return max(2, len(os.sched_getaffinity(0)))
    return max(2, os.cpu_count() or 1)
