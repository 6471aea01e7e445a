"""A world with its own time: every event in it happens in an order that its seed decides.

Each actor (a broker, the clients, the network) has an event loop. One loop at a time runs one callback, which
takes some microseconds of virtual time. If no loop has anything to do, the time passes to the next timer. A
dead or paused actor is one whose loop is not run: a killed broker leaves no callback behind.

`note` records what happens. Two runs with the same seed have the same `fingerprint`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import hashlib
import heapq
import random
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVarTuple

STEP_SECONDS: Final = 20e-6
"""The most time that one callback takes."""

KEPT_NOTES: Final = 400
"""The last notes, which a failure shows."""


Ts = TypeVarTuple("Ts")


class SimulationError(AssertionError):
    """The brokers broke a promise, or failed in a way that no outside event excuses."""


class VirtualLoop(asyncio.BaseEventLoop):
    """The event loop of one actor, which the world runs callback by callback."""

    _ready: deque[asyncio.Handle]

    def __init__(self, world: World, name: str) -> None:
        super().__init__()
        self.world = world
        self.name = name
        self.is_dead = False
        self.is_paused = False
        self.connector: Callable[[VirtualLoop, Any, str, int], Coroutine[Any, Any, Any]] | None = None
        """Opens connections from this actor (network.py)."""
        self._watched: dict[tuple[int, str], asyncio.Handle] = {}
        self._tasks: dict[asyncio.Task[Any], None] = {}
        """The tasks, so that those of a dead actor are not finalized while the world runs."""

    def time(self) -> float:
        return self.world.now

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task = super().create_task(coro, **options)
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon
    """There are no threads."""

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.world.now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self.world.add_timer(when, timer, self)
        return timer

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.world.failed(f"{self.name}: {context.get('message')}", context.get("exception"))

    def _write_to_self(self) -> None:
        """Nothing: there are no threads that could wake the loop."""

    def _check_closed(self) -> None:
        """Nothing: the loop is never closed, since it holds nothing that would have to be."""

    def __del__(self) -> None:
        """Nothing, for the same reason."""

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> list[Any]:
        """Every name is known; nobody asks what it stands for."""
        return []

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Any, host: str, port: int
    ) -> Any:
        assert self.connector is not None
        return await self.connector(self, protocol_factory, host, port)

    # --- readiness of simulated sockets ---------------------------------------------------------------------

    def add_reader(self, fd: Any, callback: Callable[[*Ts], Any], *args: *Ts) -> None:
        self._watched[fd, "read"] = asyncio.Handle(callback, args, self)
        self.world.ask_ready(self, fd)

    def remove_reader(self, fd: Any) -> bool:
        return self._watched.pop((fd, "read"), None) is not None

    def add_writer(self, fd: Any, callback: Callable[[*Ts], Any], *args: *Ts) -> None:
        self._watched[fd, "write"] = asyncio.Handle(callback, args, self)
        self.call_soon(self.is_ready, fd, "write", lambda: True)

    def remove_writer(self, fd: Any) -> bool:
        return self._watched.pop((fd, "write"), None) is not None

    def is_ready(self, fd: int, way: str, still: Callable[[], bool]) -> None:
        """Call what waits for a socket, and again while it stays ready, as a selector does."""
        handle = self._watched.get((fd, way))
        if handle is not None and still():
            handle._run()
            if (fd, way) in self._watched and still():
                self.call_soon(self.is_ready, fd, way, still)

    # --- for the world --------------------------------------------------------------------------------------

    def forget_all(self) -> None:
        """Drop everything that was to happen, and end the coroutines.

        Nothing of what they do counts.
        """
        running = asyncio._get_running_loop()
        asyncio._set_running_loop(self)  # without one, what ends might make one that nobody closes
        for task in tuple(self._tasks):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with contextlib.suppress(BaseException):
                task.get_coro().close()
        asyncio._set_running_loop(running)
        self._ready.clear()
        self._tasks.clear()
        self._watched.clear()

    def run_one(self) -> None:
        """Run the callback that is next in line; this stays the running loop until another one is."""
        handle = self._ready.popleft()
        if not handle._cancelled:
            asyncio._set_running_loop(self)
            handle._run()


class World:
    """The time, the chance and the actors of one run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.folder = ""
        """The folder of the brokers' directories. Its name differs from run to run: no note may hold it."""
        self.chance = random.Random(seed)
        self.now = 0.0
        self.loops: list[VirtualLoop] = []
        self.ran: VirtualLoop | None = None
        """The loop whose callback ran last."""
        self.failure: SimulationError | None = None
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
        try:
            while not done():
                if self.failure is not None:
                    raise self.failure
                if self.now > limit or not self._step(limit):
                    return False
        finally:
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
        ready = [loop for loop in self.loops if loop._ready and not loop.is_paused]
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
