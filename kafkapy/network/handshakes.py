"""Threads for the handshakes of TLS, which take milliseconds of CPU each.

A handshake is continued in a thread whenever its client has sent something, and holds no thread while it
waits for the client. So neither many nor slow handshakes hold up the event loop or each other.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from kafkapy.network.channel import Channel, Handshake

THREADS: Final = 2
"""The most threads of a broker for handshakes."""


class Handshakes:
    """The threads of one broker; they are started when they are first needed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: Executor) -> None:
        """`pool` has THREADS threads and no other users."""
        self._loop = loop
        self._pool = pool

    def proceed(self, channel: Channel, done: Callable[[Handshake | OSError], None]) -> None:
        """Continue a handshake in a thread, then call `done` on the loop with the outcome."""

        def run() -> None:
            outcome: Handshake | OSError
            try:
                outcome = channel.handshake()
            except (OSError, ValueError) as error:
                outcome = error if isinstance(error, OSError) else OSError(str(error))
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(done, outcome)

        try:
            self._pool.submit(run)
        except RuntimeError as error:  # no thread can be started, or the pool is shut down
            self._loop.call_soon(done, OSError(str(error)))

    def close(self) -> None:
        """Stop the threads after their present work."""
        self._pool.shutdown()
