"""Takes over every source of time and chance of a thread while a world runs in it.

Brokers get their clock and threads from their machine, and the time of timers from their loop. But code may
also ask the interpreter: for the time, for the CPU time of a turn, for the bytes of an id, for a generator of
its own. A run must not depend on any of these, nor on when the garbage collector runs.

Other threads of the process keep the real ones. The world's own thread cannot sleep, wait for sockets or
start another thread: what happens then would depend on the real time.

A module that is imported meanwhile may keep a function that stands in for one of these. It is the real one
when no world runs, and serves the next world.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from selectors import DefaultSelector
from typing import Any, Final, NamedTuple, NoReturn
from unittest import mock

from kafkapy.virtual.world import World

START_MS: Final = 1_700_000_000_000
"""The wall clock when a world begins."""


class _Running(NamedTuple):
    """A world that runs, and the chance of what asks the interpreter."""

    world: World
    chance: random.Random


_running: dict[int, _Running | None] = {}
"""The world that runs, by its thread; None while it begins."""
_turn: Final = threading.Lock()
"""Held to begin one."""


@contextmanager
def deterministic(world: World) -> Iterator[None]:
    """Let the time and the chance of this thread be those of `world`.

    Raises:
        RuntimeError: another world runs in this process.
    """
    thread, chance = threading.get_ident(), random.Random(world.seed)
    with _turn:
        if _running:
            raise RuntimeError("another cluster runs in virtual time: a process has one at a time")
        _running[thread] = None
    state, collects = random.getstate(), gc.isenabled()
    random.seed(world.seed)
    gc.disable()
    try:
        with ExitStack() as replaced:
            for owner, name, ours in _REPLACED:
                replaced.enter_context(mock.patch.object(owner, name, ours))
            _running[thread] = _Running(world, chance)
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
        if collects:
            gc.enable()
        del _running[thread]


def _here(ours: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is `ours(running, …)` in the thread of a world, else the real one."""

    def call(*args: Any, **options: Any) -> Any:
        running = _running.get(threading.get_ident())
        return real(*args, **options) if running is None else ours(running, *args, **options)

    return call


def _wall(running: _Running) -> float:
    return START_MS / 1000 + running.world.now


def _passed(running: _Running) -> float:
    return running.world.now


def _wall_ns(running: _Running) -> int:
    return int(_wall(running) * 1e9)


def _passed_ns(running: _Running) -> int:
    return int(running.world.now * 1e9)


def _at(real: Callable[[float], Any]) -> Callable[..., Any]:
    """A function of `time` that is given seconds, or none for now."""
    return _here(lambda running, seconds=None: real(_wall(running) if seconds is None else seconds), real)


def _as_text(running: _Running, *told: Any) -> str:
    return _asctime(told[0] if told else _localtime(_wall(running)))


def _formatted(running: _Running, form: str, *told: Any) -> str:
    return _strftime(form, told[0] if told else _localtime(_wall(running)))


def _of_clock(running: _Running, clock: int) -> float:
    return _wall(running) if clock in _WALL_CLOCKS else _passed(running)


def _of_clock_ns(running: _Running, clock: int) -> int:
    return _wall_ns(running) if clock in _WALL_CLOCKS else _passed_ns(running)


_asctime, _localtime, _strftime = time.asctime, time.localtime, time.strftime
_WALL_CLOCKS: Final = {time.CLOCK_REALTIME, getattr(time, "CLOCK_TAI", time.CLOCK_REALTIME)}


def _some_bytes(running: _Running, count: int) -> bytes:
    return running.chance.randbytes(count)


def _no_sleep(_: _Running, seconds: float) -> NoReturn:
    raise RuntimeError(
        f"time.sleep({seconds:g}) in virtual time would wait for ever: await asyncio.sleep, and use clients"
        ' for asyncio; with clock="real" code may block'
    )


def _no_select(_: _Running, *args: Any, **options: Any) -> NoReturn:
    raise RuntimeError(
        "a client that waits for sockets itself does not work in virtual time: use clients for asyncio, such"
        ' as aiokafka; with clock="real" a client may block'
    )


def _no_thread(_: _Running, thread: threading.Thread) -> NoReturn:
    raise RuntimeError(
        f"the thread {thread.name} cannot start in virtual time, which has one thread: use clients for"
        ' asyncio, such as aiokafka; with clock="real" a client may have threads'
    )


class _Seeded(random.Random):
    """A generator whose seed, if it is given none, comes from the world's chance."""

    def __init__(self, seed: Any = None) -> None:
        running = _running.get(threading.get_ident())
        super().__init__(running.chance.getrandbits(64) if seed is None and running is not None else seed)


_REPLACED: Final[tuple[tuple[Any, str, Any], ...]] = (
    (time, "time", _here(_wall, time.time)),
    (time, "time_ns", _here(_wall_ns, time.time_ns)),
    (time, "monotonic", _here(_passed, time.monotonic)),
    (time, "monotonic_ns", _here(_passed_ns, time.monotonic_ns)),
    (time, "perf_counter", _here(_passed, time.perf_counter)),
    (time, "perf_counter_ns", _here(_passed_ns, time.perf_counter_ns)),
    (time, "process_time", _here(_passed, time.process_time)),
    (time, "process_time_ns", _here(_passed_ns, time.process_time_ns)),
    (time, "thread_time", _here(_passed, time.thread_time)),
    (time, "thread_time_ns", _here(_passed_ns, time.thread_time_ns)),
    (time, "clock_gettime", _here(_of_clock, time.clock_gettime)),
    (time, "clock_gettime_ns", _here(_of_clock_ns, time.clock_gettime_ns)),
    (time, "localtime", _at(time.localtime)),
    (time, "gmtime", _at(time.gmtime)),
    (time, "ctime", _at(time.ctime)),
    (time, "asctime", _here(_as_text, time.asctime)),
    (time, "strftime", _here(_formatted, time.strftime)),
    (time, "sleep", _here(_no_sleep, time.sleep)),
    (os, "urandom", _here(_some_bytes, os.urandom)),
    (random, "_urandom", _here(_some_bytes, os.urandom)),
    (random, "Random", _Seeded),
    (DefaultSelector, "select", _here(_no_select, DefaultSelector.select)),
    (threading.Thread, "start", _here(_no_thread, threading.Thread.start)),
)


def _ignore(_: object) -> None:
    """Nothing."""
