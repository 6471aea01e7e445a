"""A bounded sample of durations, from which their quantiles are estimated.

Every duration has the same chance to be in the sample. Most cost only a countdown, since the number of
durations to pass over is chosen ahead (Li's algorithm L). A sample covers WINDOW_SECONDS. The previous one is
kept beside it, so that quantiles never rest on the first few durations of a window.

Apache Kafka samples too: 1,028 durations, which fade over five minutes.
"""

from __future__ import annotations

import math
import random
from typing import Final, Generic, TypeVar

SIZE: Final = 1024
"""The durations of a sample."""

WINDOW_SECONDS: Final = 60.0
"""How long a sample lasts. What is shown is at most twice as old."""

T = TypeVar("T")


class LatencySample(Generic[T]):
    """A sample of all durations of the last minute or two.

    Where each microsecond counts, the user counts `skip` down: `if sample.skip: sample.skip -= 1`, else
    `sample.take(duration, now)`. Elsewhere `count` does it.
    """

    __slots__ = ("_began", "_durations", "_previous", "_random", "_weight", "skip")

    def __init__(self, now: float, rng: random.Random | None = None) -> None:
        self.skip = 0
        """How many durations are passed over before the next one is taken."""
        self._random = rng or random.Random()
        self._previous: list[T] = []
        self._begin(now)

    def count(self, duration: T, now: float) -> None:
        """Take a duration into the sample, if it is its turn."""
        if self.skip:
            self.skip -= 1
        else:
            self.take(duration, now)

    def take(self, duration: T, now: float) -> None:
        """Take a duration into the sample, and choose the next one."""
        self._begin_if_over(now)
        if len(self._durations) < SIZE:
            self._durations.append(duration)
            if len(self._durations) == SIZE:
                self._skip_some()
        else:
            self._durations[self._random.randrange(SIZE)] = duration
            self._skip_some()

    def durations(self, now: float) -> list[T]:
        """The durations of this window and of the one before."""
        self._begin_if_over(now)
        return self._previous + self._durations

    def _begin_if_over(self, now: float) -> None:
        if now - self._began >= WINDOW_SECONDS:
            is_recent = now - self._began < 2 * WINDOW_SECONDS
            self._previous = self._durations if is_recent else []
            self._begin(now)

    def _begin(self, now: float) -> None:
        self._began = now
        self._durations: list[T] = []
        self._weight = 1.0
        self.skip = 0

    def _skip_some(self) -> None:
        """Choose the next duration: all have the same chance to be in the sample in the end."""
        self._weight *= math.exp(math.log(1 - self._random.random()) / SIZE)
        self.skip = int(math.log(1 - self._random.random()) / math.log1p(-self._weight))
