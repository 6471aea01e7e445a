"""A clock, and timers, that stand still until a test turns them."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

from kafkapy.loop.clock import Clock

START_MS = 1_700_000_000_000


class TurnedClock(Clock):
    """Shows `start_ms` and the seconds that were turned since; its monotonic clock begins at 0."""

    def __init__(self, start_ms: int = START_MS) -> None:
        self._start_ms = start_ms
        self.seconds = 0.0

    def now_ms(self) -> int:
        return self._start_ms + round(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds

    def turn(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds

    def turn_ms(self, milliseconds: int) -> None:
        """Let milliseconds pass."""
        self.turn(milliseconds / 1000)

    def show_ms(self, now_ms: int) -> None:
        """Show this time of day from now on; the monotonic clock shows what it showed."""
        self._start_ms += now_ms - self.now_ms()


class TurnedTimer:
    """A call that a TurnedTimers makes, unless it is cancelled first."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        self.call = None


class TurnedTimers:
    """Timers of a TurnedClock."""

    def __init__(self, clock: TurnedClock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, TurnedTimer]] = []
        self._count = itertools.count()

    def call_later(self, seconds: float, call: Callable[[], object]) -> TurnedTimer:
        timer = TurnedTimer(call)
        heapq.heappush(self._heap, (self._clock.seconds + max(seconds, 0), next(self._count), timer))
        return timer

    @property
    def pending(self) -> int:
        return sum(timer.call is not None for _, _, timer in self._heap)

    def advance(self, seconds: float) -> None:
        """Let time pass and call what falls due, in order."""
        end = self._clock.seconds + seconds
        while self._heap and self._heap[0][0] <= end:
            due, _, timer = heapq.heappop(self._heap)
            self._clock.seconds = max(self._clock.seconds, due)
            call, timer.call = timer.call, None
            if call is not None:
                call()
        self._clock.seconds = end
