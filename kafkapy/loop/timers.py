"""Many cheap timers: deadlines of waiting requests, sessions of group members.

A timer costs one list append. Timers are grouped in slots of `TICK` seconds and fire at the end of their
slot: at most one tick late, and never early. The event loop has only one timer, for the earliest slot. A
cancelled timer stays in its slot. Whenever the number of timers has doubled, all slots are swept, so that a
client which requests long waits again and again takes no memory. To schedule and cancel a timer takes 0.6 µs,
against 2.4 µs with uvloop's `loop.call_later`. Source of the design: Apache Kafka's TimingWheel.

The event loop runs timers before it reads from sockets. After a stall, requests that clients sent in time are
still unread. So timers that are more than STALL_SECONDS late wait once more, for the duration of the stall,
up to MAX_REPRIEVE_SECONDS. A member whose heartbeat arrived in time then does not expire.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable
from typing import Final, Protocol

TICK: Final = 0.005
STALL_SECONDS: Final = 0.1
"""A timer that is later than this shows a stall of the loop, the process or the machine."""
MAX_REPRIEVE_SECONDS: Final = 1.0
SWEEP_FROM: Final = 10_000
"""The number of timers below which slots are not swept."""

logger = logging.getLogger(__name__)


class TimedLoop(Protocol):
    """What timers need of an event loop."""

    def time(self) -> float:
        """The loop's time in seconds."""
        ...

    def call_at(self, when: float, callback: Callable[[], object], /) -> asyncio.TimerHandle:
        """Make a call when the loop's time is `when`."""
        ...

    def call_later(self, delay: float, callback: Callable[[], object], /) -> asyncio.TimerHandle:
        """Make a call after `delay` seconds."""
        ...


class Timer:
    """A scheduled call, which may be cancelled at any time."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], object]) -> None:
        self._call: Callable[[], object] | None = call

    def cancel(self) -> None:
        """Cancel the call.

        Does nothing if the timer has fired.
        """
        self._call = None

    @property
    def is_pending(self) -> bool:
        """Whether the timer has neither fired nor been cancelled."""
        return self._call is not None

    def fire(self) -> None:
        """Call now, unless the timer has fired or been cancelled."""
        call, self._call = self._call, None
        if call is not None:
            call()


class Timers:
    """The timers of one event loop."""

    def __init__(self, loop: TimedLoop) -> None:
        self._loop = loop
        self._slots: dict[int, list[Timer]] = {}
        self._order: list[int] = []
        """A heap of the keys of `_slots`."""
        self._size = 0
        """The number of timers in the slots, cancelled ones included."""
        self._sweep_at = SWEEP_FROM
        """The number of timers at which the slots are swept."""
        self._armed: tuple[int, asyncio.TimerHandle] | None = None
        self._reprieved = False
        """Whether a stall was found: timers that have waited once more fire the next time."""

    def call_later(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Call `call()` on the loop after `seconds`.

        Its exceptions are logged.
        """
        if self._size >= self._sweep_at:
            self._sweep()
        timer = Timer(call)
        self._size += 1
        slot = int((self._loop.time() + seconds) / TICK) + 1
        timers = self._slots.get(slot)
        if timers is not None:
            timers.append(timer)
            return timer
        self._slots[slot] = [timer]
        heapq.heappush(self._order, slot)
        if self._armed is None or slot < self._armed[0]:
            self._arm()
        return timer

    @property
    def next_at(self) -> float | None:
        """When the next timers are due, by the loop's time; None without any."""
        return self._order[0] * TICK if self._order else None

    def rearm(self) -> None:
        """Wait for the next timers anew, after the loop's time was moved on purpose."""
        self._arm()

    def close(self) -> None:
        """Drop all timers."""
        if self._armed is not None:
            self._armed[1].cancel()
            self._armed = None
        self._slots.clear()
        self._order.clear()

    def _sweep(self) -> None:
        """Drop the cancelled timers."""
        slots = {}
        for slot, timers in self._slots.items():
            pending = [timer for timer in timers if timer.is_pending]
            if pending:
                slots[slot] = pending
        self._slots, self._order = slots, sorted(slots)
        self._size = sum(map(len, slots.values()))
        self._sweep_at = max(SWEEP_FROM, 2 * self._size)

    def _arm(self) -> None:
        if self._armed is not None:
            self._armed[1].cancel()
            self._armed = None
        if self._order:
            slot = self._order[0]
            self._armed = slot, self._loop.call_at(slot * TICK, self._fire)

    def _fire(self) -> None:
        armed, self._armed = self._armed, None
        late = 0.0 if armed is None else self._loop.time() - armed[0] * TICK
        if armed is not None and late > STALL_SECONDS and not self._reprieved:
            self._reprieved = True
            seconds = min(late, MAX_REPRIEVE_SECONDS)
            self._armed = armed[0], self._loop.call_later(seconds, self._fire)
            return
        self._reprieved = False
        self.fire_due()
        if self._armed is None:
            self._arm()

    def fire_due(self) -> None:
        """Fire what is due now."""
        # uvloop's timers count whole milliseconds and may come a fraction early.
        now = int((self._loop.time() + 0.001) / TICK)
        while self._order and self._order[0] <= now:
            timers = self._slots.pop(heapq.heappop(self._order))
            self._size -= len(timers)
            for timer in timers:
                try:
                    timer.fire()
                except Exception:
                    logger.exception("A timer failed")
