"""The clock of a simulated machine, which is wrong."""

from __future__ import annotations

from kafkapy.loop.clock import Clock
from kafkapy.virtual.determinism import START_MS
from kafkapy.virtual.world import World


class SimulatedClock(Clock):
    """A clock that is wrong by some milliseconds."""

    def __init__(self, world: World, wrong_ms: int) -> None:
        self._world = world
        self._wrong_ms = wrong_ms

    def now_ms(self) -> int:
        return START_MS + self._wrong_ms + int(self._world.now * 1000)

    def monotonic(self) -> float:
        return self._world.now
