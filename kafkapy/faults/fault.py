"""A fault: what it is about, how often it meets that, and how often it did."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import ClassVar, Final, NamedTuple, Self, TypedDict

from kafkapy.faults.kinds import positive
from kafkapy.observe.waiting import PATIENCE, NotSeenError, NotYet, until

EVERY_TIME: Final = 1.0


class HowOften(TypedDict, total=False):
    """How often a fault meets what it concerns, as a test says it."""

    times: int
    every: int
    probability: float
    seed: int


class Often(NamedTuple):
    """Which of these it meets: every n-th of them, by chance, and so many at most."""

    times: int | None = None
    every: int = 1
    probability: float = EVERY_TIME
    seed: int | None = None

    def __str__(self) -> str:
        return shown({name: value for name, value in self._asdict().items() if value != _ALWAYS[name]})


_ALWAYS: Final = Often()._asdict()


def often(
    *, times: int | None = None, every: int = 1, probability: float = EVERY_TIME, seed: int | None = None
) -> Often:
    """How often a test wants a fault; raises ValueError."""
    if times is not None:
        positive("times", times)
    if not 0 <= probability <= 1:
        raise ValueError(f"probability={probability} is not between 0 and 1")
    return Often(times, positive("every", every), probability, seed)


def shown(given: Mapping[str, object]) -> str:
    """Arguments as in a call, without those that are None."""
    return ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)


class Fault:
    """A fault of a broker, until `stop`; at the end of its `with` block it stops by itself."""

    counted: ClassVar[str]
    """What `hits` counts."""

    def __init__(self, call: str) -> None:
        """`call` is the call that makes it, without how often."""
        self._call = call
        self._often = Often()
        self._random = random.Random()
        self._stopped: Callable[[Fault], None]
        self.number = 0
        """Tells it from the others of its broker."""
        self._changed = threading.Condition()
        """Guards the numbers: the broker counts in its threads, and tests wait in theirs."""
        self._asked = self._hits = 0

    def switched_on(self, number: int, how_often: Often, stopped: Callable[[Fault], None]) -> None:
        """Begin; `stopped` is called when it is switched off."""
        self.number, self._often, self._stopped = number, how_often, stopped
        self._random = random.Random(how_often.seed)

    @property
    def hits(self) -> int:
        """How many requests, connections or calls of the disk it has met."""
        with self._changed:
            return self._hits

    @property
    def asked(self) -> int:
        """How many of them it concerned, while it could meet another one."""
        with self._changed:
            return self._asked

    @property
    def is_over(self) -> bool:
        """Whether it has met as many as it may."""
        return self._often.times is not None and self.hits >= self._often.times

    def hit(self, times: int = 1, *, within: float = PATIENCE) -> None:
        """Wait until it has met so many; raises NotSeenError after `within` seconds."""
        __tracebackhide__ = True
        end = time.monotonic() + within
        with self._changed:
            if not self._changed.wait_for(lambda: self._hits >= times, end - time.monotonic()):
                raise NotSeenError(f"waited for {within:g} s for {self.wanted(times)}; {self._told()}")

    def wanted(self, times: int) -> str:
        """What `hit` waits for, in words."""
        return f"{self} to meet {times} {self.counted}"

    def seen(self, times: int) -> NotYet | None:
        """None if it has met so many, else what there is instead."""
        with self._changed:
            return None if self._hits >= times else NotYet(self._told())

    def _told(self) -> str:
        return f"it has met {self._hits}, of {self._asked} that it concerns"

    def stop(self) -> None:
        """Switch it off; what it has met is not let go."""
        self._stopped(self)

    def takes(self) -> bool:
        """Count what it concerns; return whether it meets it."""
        wanted = self._often
        with self._changed:
            if wanted.times is not None and self._hits >= wanted.times:
                return False
            self._asked += 1
            if self._asked % wanted.every or self._random.random() >= wanted.probability:
                return False
            self._hits += 1
            self._changed.notify_all()
            return True

    def __str__(self) -> str:
        call, how_often = self._call, str(self._often)
        return f"{call[:-1]}{'' if call.endswith('()') else ', '}{how_often})" if how_often else call

    def __repr__(self) -> str:
        return f"<fault {self}, hits={self.hits}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class AsyncFault:
    """A `Fault` for asyncio: its wait is a coroutine."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    @property
    def hits(self) -> int:
        """How many requests, connections or calls of the disk it has met."""
        return self._fault.hits

    async def hit(self, times: int = 1, *, within: float = PATIENCE) -> None:
        """Wait until it has met so many; raises NotSeenError after `within` seconds."""
        __tracebackhide__ = True

        async def look() -> NotYet | None:
            return self._fault.seen(times)

        await until(look, self._fault.wanted(times), within)

    def stop(self) -> None:
        """Switch it off; what it has met is not let go."""
        self._fault.stop()

    def __repr__(self) -> str:
        return repr(self._fault)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
