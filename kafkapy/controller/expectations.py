"""The events that requests wait for: partitions are led, topics are deleted.

The creation of a topic is answered when its leaders know that they lead; so a client that has heard of the
topic can use it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Expectation(Generic[K]):
    """Things that one request waits for."""

    def __init__(self, things: Collection[K]) -> None:
        self.missing = set(things)
        """The events that have not happened yet."""
        self.is_over = asyncio.Event()
        if not self.missing:
            self.is_over.set()


class Expectations(Generic[K]):
    """The events that all requests wait for."""

    def __init__(self) -> None:
        self._expected: dict[K, list[Expectation[K]]] = {}

    def __bool__(self) -> bool:
        return bool(self._expected)

    def expect(self, things: Collection[K]) -> Expectation[K]:
        """Begin to wait for things."""
        expectation = Expectation(things)
        for thing in expectation.missing:
            self._expected.setdefault(thing, []).append(expectation)
        return expectation

    async def wait(self, expectation: Expectation[K], seconds: float) -> Collection[K]:
        """Wait until all has happened, or this time has passed; return what is missing then."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0)):
                await expectation.is_over.wait()
        for thing in expectation.missing:
            waiting = self._expected.get(thing, [])
            if expectation in waiting:
                waiting.remove(expectation)
                if not waiting:
                    del self._expected[thing]
        return expectation.missing

    def happened(self, thing: K) -> None:
        for expectation in self._expected.pop(thing, ()):
            expectation.missing.discard(thing)
            if not expectation.missing:
                expectation.is_over.set()

    def give_up(self) -> None:
        """End all waits, though things are missing."""
        for expectations in self._expected.values():
            for expectation in expectations:
                expectation.is_over.set()
        self._expected.clear()
