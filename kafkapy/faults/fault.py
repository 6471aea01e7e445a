"""A fault: what it does to which requests, how often, and how often it did."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, NamedTuple, Self, TypedDict

from kafkapy.faults.filter import Filter
from kafkapy.faults.kinds import Asked, Kind
from kafkapy.observe.waiting import PATIENCE, NotSeenError
from kafkapy.protocol.types import ApiKey

EVERY_TIME: Final = 1.0


class Requests(NamedTuple):
    """The requests that a fault concerns."""

    api: ApiKey
    concerned: Filter
    client_id: str | None

    def __str__(self) -> str:
        given = {**self.concerned._asdict(), "client_id": self.client_id}
        shown = ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)
        return f"{self.api.name.lower()}({shown})"


class HowOften(TypedDict, total=False):
    """How often a fault meets the requests that it concerns, as a test says it."""

    times: int
    every: int
    probability: float
    seed: int


class Often(NamedTuple):
    """Which of these requests it meets: every n-th of them, by chance, and so many at most."""

    times: int | None
    every: int
    probability: float
    seed: int | None

    def __str__(self) -> str:
        given = {
            "times": self.times,
            "every": None if self.every == 1 else self.every,
            "probability": None if self.probability == EVERY_TIME else self.probability,
            "seed": self.seed,
        }
        return ", ".join(f"{name}={value}" for name, value in given.items() if value is not None)


class Fault:
    """A fault of a broker, until `stop`; at the end of its `with` block it stops by itself."""

    def __init__(
        self, requests: Requests, kind: Kind, often: Often, stopped: Callable[[Fault], None]
    ) -> None:
        """`stopped` is called when it is switched off."""
        self.requests = requests
        self._kind = kind
        self._often = often
        self._stopped = stopped
        self._random = random.Random(often.seed)
        self._changed = threading.Condition()
        """Guards the numbers: the broker counts in its thread, and tests wait in theirs."""
        self._asked = self._hits = 0

    @property
    def hits(self) -> int:
        """How many requests it has met."""
        with self._changed:
            return self._hits

    def hit(self, times: int = 1, *, within: float = PATIENCE) -> None:
        """Wait until it has met so many requests; raises NotSeenError after `within` seconds."""
        __tracebackhide__ = True
        end = time.monotonic() + within
        with self._changed:
            if not self._changed.wait_for(lambda: self._hits >= times, end - time.monotonic()):
                told = f"it has met {self._hits}, of {self._asked} that it concerns"
                raise NotSeenError(f"waited for {within:g} s for {self} to meet {times} requests; {told}")

    def stop(self) -> None:
        """Switch it off; requests that it has met are not let go."""
        self._stopped(self)

    def meet(self, asked: Asked) -> object:
        """The answer to a request, or PASSED (kinds.py); on the broker's loop."""
        return self._kind.meet(asked, self.requests.concerned, self._takes)

    def _takes(self) -> bool:
        """Count a request that it concerns; return whether it meets it."""
        often = self._often
        with self._changed:
            if often.times is not None and self._hits >= often.times:
                return False
            self._asked += 1
            if self._asked % often.every or self._random.random() >= often.probability:
                return False
            self._hits += 1
            self._changed.notify_all()
            return True

    def __str__(self) -> str:
        kind, often = str(self._kind), str(self._often)
        if often:
            kind = f"{kind[:-1]}{'' if kind.endswith('()') else ', '}{often})"
        return f"{self.requests}.{kind}"

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
        """How many requests it has met."""
        return self._fault.hits

    async def hit(self, times: int = 1, *, within: float = PATIENCE) -> None:
        """Wait until it has met so many requests; raises NotSeenError after `within` seconds."""
        __tracebackhide__ = True
        await asyncio.to_thread(self._fault.hit, times, within=within)

    def stop(self) -> None:
        """Switch it off; requests that it has met are not let go."""
        self._fault.stop()

    def __repr__(self) -> str:
        return repr(self._fault)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
