"""Watches how late and how idle the event loop is, and how many connections come and go.

A timer looks ten times a second. Its lateness is what a request waits that arrives at a bad moment.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from typing import Final, NamedTuple

from kafkapy.network.server import Server

EVERY_SECONDS: Final = 0.1
BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
"""The upper bounds of the histogram's buckets, in seconds."""

LOOKS: Final = 600
"""The looks of a minute, over which rates are taken."""


class Look(NamedTuple):
    """What the probe saw at one moment."""

    at: float
    cpu_seconds: float
    accepted: int
    closed: int


class LoopProbe:
    """Watches the event loop on which it is made."""

    def __init__(self, loop: asyncio.AbstractEventLoop, server: Server) -> None:
        self._loop = loop
        self._server = server
        clock_of = getattr(time, "pthread_getcpuclockid", None)  # macOS has none
        self._cpu_clock: int | None = None if clock_of is None else clock_of(threading.get_ident())
        self._looks: deque[Look] = deque(maxlen=LOOKS)
        self.counts = [0] * (len(BOUNDS) + 1)
        """How many looks were so late, by bucket."""
        self.late_seconds = 0.0
        """The lateness of all looks together."""
        self._idle = 0.0
        self._began = self._look_now()
        self._due = time.monotonic() + EVERY_SECONDS
        self._timer = loop.call_later(EVERY_SECONDS, self._look)
        self._note()

    def stop(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def rates(self) -> tuple[float, float, float]:
        """The share of idle time, and connections accepted and closed a second, in a minute."""
        first, last = self._looks[0], self._look_now()
        seconds = max(last.at - first.at, 1e-9)
        idle = 1.0 - (last.cpu_seconds - first.cpu_seconds) / seconds
        return (
            min(max(idle, 0.0), 1.0),
            (last.accepted - first.accepted) / seconds,
            (last.closed - first.closed) / seconds,
        )

    def idle_seconds(self) -> float:
        """For how long the loop was idle since this began; it never falls."""
        now = self._look_now()
        idle = (now.at - self._began.at) - (now.cpu_seconds - self._began.cpu_seconds)
        self._idle = max(self._idle, idle)
        return self._idle

    def buckets(self) -> list[tuple[str, int]]:
        """The cumulative buckets of the histogram."""
        found, total = [], 0
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), self.counts, strict=True):
            total += count
            found.append((bound, total))
        return found

    def _look(self) -> None:
        now = time.monotonic()
        late = max(now - self._due, 0.0)
        self.late_seconds += late
        self.counts[next((place for place, bound in enumerate(BOUNDS) if late <= bound), len(BOUNDS))] += 1
        self._note()
        self._due = now + EVERY_SECONDS
        self._timer = self._loop.call_later(EVERY_SECONDS, self._look)

    def _note(self) -> None:
        self._looks.append(self._look_now())

    def _look_now(self) -> Look:
        cpu = 0.0 if self._cpu_clock is None else time.clock_gettime(self._cpu_clock)
        accepted = self._server.accepted
        return Look(time.monotonic(), cpu, accepted, accepted - len(self._server.connections))
