"""A clock that a test advances, with all that the broker would have done meanwhile.

It runs as the machine's clock does, and ahead of it by what it was advanced. So clients, whose time is real,
are served as by any broker: their long polls end, and what waits for a second waits for a second.

Two kinds of things wait for this clock. Timers (timers.py) are deadlines: of sessions, of rebalances, of
transactions, of locks. An advance goes from deadline to deadline, shows the time of each, and fires it. What
that begins is finished before time advances. Periodic jobs wait in `sleep`: retention, compaction, the expiry
of producers. An advance lets them run HOPS times, or as often as they are due, if that is less: a week has
600,000 seconds, and what a job finds depends on the time and not on how often it looked before.

All else waits for the loop's own time, and is not advanced: idle connections, requests between brokers,
quotas, a follower's lag.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from kafkapy.loop.clock import Clock
from kafkapy.loop.timers import TICK, Timers

HOPS: Final = 50
"""How many times an advance lets periodic jobs run."""
SHORTEST_HOP: Final = 0.5
"""The seconds between these times, at least."""
PATIENCE: Final = 5.0
"""How long an advance waits for what it has begun, in real seconds, without seeing an end of anything."""
FIRED_AT_ONCE: Final = 50
"""How many times timers that begin nothing may fire before clients are served again."""
LAST_STEPS: Final = 200
"""How many timers of work that continues in steps may fire after the end of an advance."""


class _TurnedLoop:
    """The event loop of a broker, as its timers see it: ahead of its time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: ManualClock) -> None:
        self._loop = loop
        self._clock = clock

    def time(self) -> float:
        """The loop's time, advanced."""
        return self._loop.time() + self._clock.ahead

    def call_at(self, when: float, callback: Callable[[], object], /) -> asyncio.TimerHandle:
        """Make a call when the advanced time is `when`, if it is not advanced again."""
        return self._loop.call_at(when - self._clock.ahead, callback)

    def call_later(self, delay: float, callback: Callable[[], object], /) -> asyncio.TimerHandle:
        """Make a call after `delay` seconds."""
        return self._loop.call_later(delay, callback)


class _Sleeper:
    """A periodic job that waits for its next time."""

    def __init__(self, due: float, woken: asyncio.Future[None]) -> None:
        self.due = due
        """By the monotonic clock."""
        self._woken = woken
        self._handle: asyncio.TimerHandle | None = None

    def arm(self, seconds: float) -> None:
        """Wake the job after `seconds` of real time."""
        self.disarm()
        self._handle = self._woken.get_loop().call_later(seconds, self.wake)

    def disarm(self) -> None:
        """Let time not wake the job."""
        if self._handle is not None:
            self._handle.cancel()

    def wake(self) -> None:
        """Let the job run."""
        self.disarm()
        if not self._woken.done():
            self._woken.set_result(None)


class ManualClock(Clock):
    """The clock of one broker, which a test advances."""

    def __init__(self) -> None:
        self._ahead_ns = 0
        self.turn_of_tests = threading.Lock()
        """Held by the thread that advances it."""
        self._timers: Timers | None = None
        """Those of the broker that runs, or ran last."""
        self._sleepers: list[_Sleeper] = []
        self._awake: set[asyncio.Task[Any]] = set()
        """The jobs that have slept before and do not sleep."""
        self._fired = 0
        """How many times an advance has fired timers."""
        self._turned: Callable[[], None] | None = None
        """Called whenever an advance shows another time."""
        self._slept = asyncio.Event()
        """Set whenever a job begins to sleep."""

    @property
    def ahead(self) -> float:
        """The seconds by which it was advanced."""
        return self._ahead_ns / 1e9

    def now_ms(self) -> int:
        """Milliseconds since 1970, as in records."""
        return (time.time_ns() + self._ahead_ns) // 1_000_000

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back, for deadlines."""
        return (time.monotonic_ns() + self._ahead_ns) / 1e9

    def timers(self, loop: asyncio.AbstractEventLoop, of_requests: Timers) -> Timers:
        """The timers of the broker's deadlines, which an advance fires."""
        self._timers, self._slept = Timers(_TurnedLoop(loop, self)), asyncio.Event()
        return self._timers

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`, or less if the clock is advanced meanwhile."""
        job = asyncio.current_task()
        assert job is not None
        woken = asyncio.get_running_loop().create_future()
        sleeper = _Sleeper(self.monotonic() + seconds, woken)
        sleeper.arm(seconds)
        self._sleepers.append(sleeper)
        self._awake.discard(job)
        self._slept.set()
        try:
            await woken
        finally:
            sleeper.disarm()
            self._sleepers.remove(sleeper)
        self._awake.add(job)

    def turn(self, seconds: float) -> None:
        """Show a later time, and do nothing: no broker runs."""
        self._ahead_ns += round(seconds * 1e9)
        if self._turned is not None:
            self._turned()

    async def advance(
        self, seconds: float, *, at_rest: Callable[[], bool], turned: Callable[[], None] | None = None
    ) -> None:
        """Do what the running broker would do in so many seconds; on its loop.

        `at_rest` tells whether all that timers have begun has ended. `turned` is called whenever another time
        is shown, before what is due then.
        """
        assert self._timers is not None
        timers, self._turned = self._timers, turned
        end, hop = self.monotonic() + seconds, max(seconds / HOPS, SHORTEST_HOP)
        await self._settle(at_rest)
        while (left := end - self.monotonic()) > 0:
            await self._go_to_deadlines(timers, self.monotonic() + min(hop, left), at_rest)
            self.turn(max(min(hop, end - self.monotonic()), 0))
            await self._wake_sleepers(at_rest)
        # Work that takes turns of the loop continues in a timer that is due at once, after the end.
        for _ in range(LAST_STEPS):
            due = timers.next_at
            if due is None or due > self._loop_time() + 2 * TICK:
                break
            await self._fire(timers, due, at_rest)
        timers.rearm()
        self._turned = None
        for sleeper in self._sleepers:
            sleeper.arm(max(sleeper.due - self.monotonic(), 0))

    def _loop_time(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead

    async def _go_to_deadlines(self, timers: Timers, to: float, at_rest: Callable[[], bool]) -> None:
        """Fire all timers that are due until the monotonic clock shows `to`, each at its time."""
        while (due := timers.next_at) is not None and due <= self._loop_time() + to - self.monotonic():
            await self._fire(timers, due, at_rest)

    async def _fire(self, timers: Timers, due: float, at_rest: Callable[[], bool]) -> None:
        self.turn(max(due - self._loop_time(), 0))
        timers.fire_due()
        self._fired += 1
        if self._awake or not at_rest() or not self._fired % FIRED_AT_ONCE:
            await self._settle(at_rest)

    async def _wake_sleepers(self, at_rest: Callable[[], bool]) -> None:
        """Let the jobs run whose time has come, one after the other."""
        now = self.monotonic()
        for sleeper in sorted(self._sleepers, key=lambda each: each.due):
            if sleeper.due <= now:
                sleeper.wake()
                await self._settle(at_rest)

    async def _settle(self, at_rest: Callable[[], bool]) -> None:
        """Wait until the jobs sleep and all is at rest."""
        await asyncio.sleep(0)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self._awake = {job for job in self._awake if not job.done()}
            if self._awake:
                self._slept.clear()
                try:
                    await asyncio.wait_for(self._slept.wait(), PATIENCE)
                except TimeoutError:
                    return
                end = time.monotonic() + PATIENCE
            elif at_rest():
                return
            else:
                await asyncio.sleep(0.001)
