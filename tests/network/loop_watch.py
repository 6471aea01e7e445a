"""Measures how long each callback of a broker's event loop takes.

It measures the CPU time of the loop's thread, which a busy machine does not make longer. Waiting for a disk
does not count. asyncio's own loop runs each callback by `Handle._run`; uvloop has no such place, so a watched
broker runs on asyncio's.

Garbage collection is off meanwhile, because it visits all objects of the test process.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

import kafkapy
from kafkapy.broker.core import BrokerCore

LIMIT: Final = 0.02
"""No request may block the loop for so many seconds, on a machine that makes ENTRIES in MAKING or less."""
ENTRIES: Final = 50_000
MAKING: Final = 0.018
TRIES: Final = 4


def is_long(seconds: float) -> bool:
    """Whether so much CPU time is longer than LIMIT, which grows on a slower machine.

    A machine may be a third as fast an hour later, so it is asked whenever that decides.
    """
    return seconds >= LIMIT and seconds >= LIMIT * statistics.median(_slowness() for _ in range(3))


def _slowness() -> float:
    """How much longer than MAKING this machine takes.

    It makes objects, since additions would tell nothing of the memory.
    """
    started = time.thread_time()
    sorted({f"topic-{number}": [number, (number,)] for number in range(ENTRIES)})
    return (time.thread_time() - started) / MAKING


class LoopWatch:
    """Watches the callbacks of one thread's loop, while `watching`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.holds: list[tuple[float, str]] = []
        """CPU seconds of the callbacks that took more than a millisecond, and which they were."""
        self.count = 0
        """Of all callbacks."""
        self._thread = -1
        self._broker: kafkapy.Broker | None = None
        self._is_on = False
        run = asyncio.Handle._run

        def timed(handle: asyncio.Handle) -> None:
            if not self._is_on or threading.get_ident() != self._thread:
                run(handle)
                return
            started = time.thread_time()
            try:
                run(handle)
            finally:
                seconds = time.thread_time() - started
                self.count += 1
                if seconds > 0.001:
                    self.holds.append((seconds, repr(handle)))

        monkeypatch.setattr(asyncio.Handle, "_run", timed)
        monkeypatch.setattr("kafkapy.loop.event_loop.new_event_loop", asyncio.new_event_loop)

    @contextmanager
    def broker(self, data_dir: Path, config: Mapping[str, object] | None = None) -> Iterator[kafkapy.Broker]:
        """A running broker whose loop is the watched one."""
        with kafkapy.Broker(data_dir=data_dir, config=config) as broker:
            self.follow(broker)
            yield broker

    def follow(self, broker: kafkapy.Broker) -> None:
        """Watch the loop of a running broker."""
        self._broker = broker
        self._thread = broker.call(_ident)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Measure the callbacks in the `with` block."""
        self.holds.clear()
        self.count = 0
        gc.collect()
        gc.disable()
        self._is_on = True
        try:
            yield
            assert self._broker is not None
            self._broker.call(_ident)  # the callback that has sent the answer has ended then
        finally:
            self._is_on = False
            gc.enable()

    def check_each(self, ask: Callable[[], object], doing: str = "") -> None:
        """Assert that one of some calls of `ask` does not hold the loop for long.

        Cold caches of a busy machine make a callback dearer now and then. What holds the loop always does.
        """
        for _ in range(TRIES):
            with self.watching():
                ask()
            if not is_long(self.longest[0]):
                break
        self.check(doing)

    @property
    def longest(self) -> tuple[float, str]:
        """The callback that took longest: CPU seconds, and what it was."""
        return max(self.holds, default=(0.0, "nothing"))

    def check(self, doing: str = "") -> None:
        """Assert that no callback held the loop for long, and that there were any."""
        assert self.count
        seconds, what = self.longest
        assert not is_long(seconds), f"{doing}{what} held the event loop for {seconds * 1000:.0f} ms"


async def _ident(_: BrokerCore) -> int:
    return threading.get_ident()
