"""A world with its own time: every event in it happens in an order that its seed decides.

Each actor (a broker, the clients, the network) has an event loop. One loop at a time runs one callback, which
takes some microseconds of virtual time. If no loop has anything to do, the time passes to the next timer. A
dead or paused actor is one whose loop is not run: a killed broker leaves no callback behind.

`note` records what happens. Two runs with the same seed have the same `fingerprint`.

A strict world ends with the first exception that nothing handles, and with a broker that gives up. In any
other they are logged, as by any event loop, and the broker is gone.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import random
import sys
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from kafkapy.virtual.loop import VirtualLoop

STEP_SECONDS: Final = 20e-6
"""The most time that one callback takes."""

KEPT_NOTES: Final = 400
"""The last notes, which a failure shows."""


class SimulationError(AssertionError):
    """The brokers broke a promise, or failed in a way that no outside event excuses."""


class World:
    """The time, the chance and the actors of one run."""

    def __init__(self, seed: int, *, is_strict: bool = False) -> None:
        self.seed = seed
        self.is_strict = is_strict
        self.folder = ""
        """The folder of the brokers' directories. Its name differs from run to run: no note may hold it."""
        self.chance = random.Random(seed)
        self.now = 0.0
        self.loops: list[VirtualLoop] = []
        self.ran: VirtualLoop | None = None
        """The loop whose callback ran last."""
        self.failure: SimulationError | None = None
        self.interrupted: BaseException | None = None
        """What ends the run from outside, such as a test runner's timeout."""
        self.after_each: list[Callable[[], None]] = []
        """Called after each callback, outside of all loops."""
        self.after_this: list[Callable[[], None]] = []
        """Called once, after the present callback, before `after_each`."""
        self.readable: Callable[[VirtualLoop, int], None] = lambda loop, fd: None
        """Looks whether a simulated socket has something to read already (network.py)."""
        self.buried: list[object] = []
        """What killed actors leave: it must not be finalized while the world runs."""
        self.notes: deque[str] = deque(maxlen=KEPT_NOTES)
        self.events = 0
        self.faults: Counter[str] = Counter()
        """What went wrong, and how often."""
        self.watch: Callable[[str], None] | None = None
        """Called with each note, to write them all."""
        self._timers: list[tuple[float, int, asyncio.TimerHandle, VirtualLoop]] = []
        """A heap of the timers of all loops; those of one time run in the order in which they were set."""
        self._timers_set = 0
        self._hash = hashlib.sha256()
        self.outside = self.loop("outside")

    def loop(self, name: str) -> VirtualLoop:
        """A new actor's loop."""
        loop = VirtualLoop(self, name)
        self.loops.append(loop)
        return loop

    def note(self, who: str, what: str, *about: object) -> None:
        """Record an event.

        What it is about must not depend on the process: no addresses, no sets.
        """
        line = f"{self.now:.6f} {who} {what} {' '.join(map(str, about))}"
        self._hash.update(line.encode())
        self.events += 1
        self.notes.append(line)
        if self.watch is not None:
            self.watch(line)

    def fault(self, what: str, *about: object) -> None:
        """Record something bad that is done to the brokers."""
        self.faults[what] += 1
        self.note("fault", what, *about)

    @property
    def fingerprint(self) -> str:
        """The same for two runs in which the same happened."""
        return self._hash.hexdigest()

    def failed(self, what: str, cause: BaseException | None = None) -> None:
        """End the run: a promise is broken."""
        if self.failure is None:
            self.failure = SimulationError(f"seed {self.seed}, {self.now:.6f} s: {what}")
            self.failure.__cause__ = cause
            self.note("world", "failed", what)

    def later(self, seconds: float, call: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        """Call outside of all actors after some time."""
        return self.outside.call_later(seconds, call, *args)

    def add_timer(self, when: float, timer: asyncio.TimerHandle, loop: VirtualLoop) -> None:
        """Let a timer of a loop be due at some time."""
        self._timers_set += 1
        heapq.heappush(self._timers, (when, self._timers_set, timer, loop))

    def end(self) -> None:
        """Take nothing more: what is finalized now may still call."""
        self.after_each.clear()
        self.after_this.clear()
        self._timers.clear()
        self.failure = self.ran = None
        for loop in [*self.loops, *(each for each in self.buried if isinstance(each, VirtualLoop))]:
            loop.is_dead = True
            loop.forget_all()

    def kill(self, loop: VirtualLoop) -> None:
        """Never run this loop again."""
        loop.is_dead = True
        self.loops.remove(loop)
        self.buried.append(loop)

    def ask_ready(self, loop: VirtualLoop, fd: int) -> None:
        """Call a reader that was added if there is something to read."""
        self.readable(loop, fd)

    def run_until(self, done: Callable[[], bool], limit: float) -> bool:
        """Run until `done()`, or until the time is `limit`; return whether it is done.

        Raises:
            SimulationError: a promise was broken.
        """
        hooks = sys.get_asyncgen_hooks()
        try:
            while not done():
                if self.failure is not None:
                    raise self.failure
                if self.interrupted is not None:
                    raise self.interrupted
                if self.now > limit or not self._step(limit):
                    return False
        finally:
            sys.set_asyncgen_hooks(*hooks)
            asyncio._set_running_loop(None)
        if self.failure is not None:
            raise self.failure
        return True

    def _step(self, limit: float) -> bool:
        """Run one callback; False if nothing will ever happen, or not before `limit`."""
        timers = self._timers
        while timers and timers[0][0] <= self.now:
            _, _, timer, of = heapq.heappop(timers)
            if not timer._cancelled and not of.is_dead:
                of._ready.append(timer)
        ready = [loop for loop in self.loops if loop.may_run]
        if not ready:
            while timers and (timers[0][2]._cancelled or timers[0][3].is_dead):
                heapq.heappop(timers)
            if not timers or timers[0][0] > limit:
                self.now = limit + 1e-9
                return False
            self.now = timers[0][0]
            return True
        loop = self.ran = ready[self.chance.randrange(len(ready)) if len(ready) > 1 else 0]
        loop.run_one()
        self.now += self.chance.random() * STEP_SECONDS
        while self.after_this:
            self.after_this.pop(0)()
        for look in self.after_each:
            look()
        return True
