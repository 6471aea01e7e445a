"""Threads for long work on requests, shared fairly between connections.

Most of the work is the validation of batches; long messages are decoded and encoded here, too. A few
kilobytes may decompress to `max.decompressed.message.bytes`. A connection that sends only such batches uses a
core, and forty of them would use all cores. So connections that have used little CPU time go first, and the
last thread is reserved for them: an ordinary batch never waits for forty decompression bombs. Other
connections share one thread less than there are cores, which leaves a core for the event loop.

The CPU time that a connection has used is a debt, which it pays off at SHARE of a second per second. It is
stored as the time at which it will be paid (`Connection.validation_paid_at`), at most MEMORY_SECONDS ahead.
"""

from __future__ import annotations

import asyncio
import heapq
import os
import time
from collections.abc import Callable
from concurrent.futures import Executor
from itertools import count
from typing import Final, Protocol, TypeVar

SHARE: Final = 0.1
"""The share of one thread that a connection may use without a growing debt."""

LIGHT_SECONDS: Final = 0.2
"""A debt that will be paid within this time does not count."""

MEMORY_SECONDS: Final = 10.0

TURN_SECONDS: Final = 0.02
"""The CPU time after which a request with many batches lets others go first, before its next batch."""

T = TypeVar("T")


class Payer(Protocol):
    """A connection, seen as the one that pays for the validation of its batches."""

    validation_paid_at: float
    """The time at which its debt will be paid; 0.0 before its first validation."""


class Validation:
    """The threads, and the work that waits for a thread."""

    def __init__(self, pool: Executor, threads: int) -> None:
        """`pool` has `threads` threads, at least two, and has no other users."""
        self._loop = asyncio.get_running_loop()
        self._pool = pool
        self._threads = threads
        self._waiting: list[tuple[float, int, asyncio.Future[bool]]] = []
        """A heap of (time at which the debt is paid, number, future that ends the wait)."""
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
        # A thread cannot be stopped: it stays in use until the call ends, even if the wait is cancelled.
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
        """Stop the threads after their present work."""
        self._pool.shutdown()

    def _go_on(self) -> None:
        """Give the free threads to the connections with the smallest debts."""
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
    """Return the result of `call` and the CPU seconds that it took."""
    start = time.thread_time()
    result = call()
    return result, time.thread_time() - start


def validation_threads() -> int:
    """The number of validation threads: the number of cores that the process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(2, len(os.sched_getaffinity(0)))
    return max(2, os.cpu_count() or 1)
