"""Takes over every source of time and chance of this process while a world runs.

Brokers get their clock and threads from their machine, and the time of timers from their loop. But code may
also ask the interpreter: for the CPU time of a turn, for the bytes of an id, for a generator of its own. A
run must not depend on any of these, nor on when the garbage collector runs.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from unittest import mock

from tests.simulation.world import World

START_MS: Final = 1_700_000_000_000
"""The wall clock when a world begins."""


@contextmanager
def deterministic(world: World) -> Iterator[None]:
    """Let the time and the chance of this process be those of `world`."""
    chance = random.Random(world.seed)

    class Seeded(random.Random):
        def __init__(self, seed: int | None = None) -> None:
            super().__init__(chance.getrandbits(64) if seed is None else seed)

    def wall() -> float:
        return START_MS / 1000 + world.now

    def wall_ns() -> int:
        return int(wall() * 1e9)

    def passed() -> float:
        return world.now

    state = random.getstate()
    random.seed(world.seed)
    gc.disable()
    try:
        with (
            mock.patch.object(time, "time", wall),
            mock.patch.object(time, "time_ns", wall_ns),
            mock.patch.object(time, "monotonic", passed),
            mock.patch.object(time, "thread_time", passed),
            mock.patch.object(time, "sleep", _no_sleep),
            mock.patch.object(os, "urandom", chance.randbytes),
            mock.patch.object(random, "_urandom", chance.randbytes),
            mock.patch.object(random, "Random", Seeded),
        ):
            yield
    finally:
        random.setstate(state)
        with mock.patch.object(sys, "unraisablehook", _ignore), warnings.catch_warnings():
            # Coroutines of killed brokers are finalized: nothing of what they do then counts.
            warnings.simplefilter("ignore")
            world.end()
            world.buried.clear()
            world.loops.clear()
            gc.collect()
        gc.enable()


def _no_sleep(seconds: float) -> None:
    raise AssertionError(f"a thread of a simulated broker sleeps for {seconds} s")


def _ignore(_: object) -> None:
    """Nothing."""
