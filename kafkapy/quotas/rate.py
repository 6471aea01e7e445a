"""A rate over windows of time, as Kafka measures it for quotas.

    samples   |--- window ---|--- window ---| ... |--- the current one
    rate      what all samples hold / the time since the oldest began, but at least windows - 1 complete ones

A sample begins with the first record after the one before is complete. It is emptied once the last record in
it is older than all windows together, and then counts as if it began at that moment. So after a pause the
time of the oldest sample may be that of its emptying, which the rates of Kafka show too.

There is no I/O here: times are arguments, in milliseconds, and never go back. Source: Rate, SampledStat,
WindowedSum, QuotaUtils.
"""

from __future__ import annotations

import math
from typing import Final

_NEVER: Final = 1 << 62

LONGEST_MS: Final = 2**31 - 1
"""The longest time for which a client is throttled: answers have no room for more."""


class _Sample:
    """What was recorded in one window."""

    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        """Begin again, with nothing."""
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class Rate:
    """The rate of something in a second."""

    __slots__ = (
        "_age_ms",
        "_current",
        "_oldest_ms",
        "_review_ms",
        "_samples",
        "_total",
        "_window_ms",
        "_windows",
    )

    def __init__(self, windows: int, window_ms: int) -> None:
        """Measure over `windows` windows of `window_ms` each."""
        self._windows = windows
        self._window_ms = window_ms
        self._age_ms = windows * window_ms
        self._samples: list[_Sample] = []
        """At most one more than there are windows: the oldest may overlap their beginning."""
        self._current = 0
        """The place of the sample in which is recorded."""
        self._total = 0.0
        """What all samples hold."""
        self._oldest_ms = 0
        """When the oldest sample began."""
        self._review_ms = _NEVER
        """Before this time, no sample is to be emptied."""

    def record(self, value: float, now_ms: int) -> None:
        """Add `value`, which is negative to take something back."""
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms))
            self._review(now_ms)
        sample = samples[self._current]
        if now_ms - sample.start_ms >= self._window_ms:
            sample = self._next_sample(now_ms)
        sample.value += value
        sample.last_ms = now_ms
        self._total += value

    def per_second(self, now_ms: int) -> float:
        """The rate now."""
        window_ms = self.window_ms(now_ms)
        return self._total / (window_ms / 1000)

    def window_ms(self, now_ms: int) -> int:
        """The time over which the rate is measured now."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
            self._review(now_ms)
        elif now_ms >= self._review_ms:
            self._review(now_ms)
        elapsed = now_ms - self._oldest_ms
        missing = self._windows - 1 - elapsed // self._window_ms
        if missing > 0:
            elapsed += missing * self._window_ms
        return max(elapsed, 1)

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """For how long nothing may be recorded until the rate is `limit`; 0 if it is not above it."""
        rate = self.per_second(now_ms)
        if rate <= limit:
            return 0
        return min(math.floor((rate - limit) / limit * self.window_ms(now_ms) + 0.5), LONGEST_MS)

    def _next_sample(self, now_ms: int) -> _Sample:
        self._current = (self._current + 1) % (self._windows + 1)
        if self._current >= len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        self._sum_up()
        return self._samples[self._current]

    def _review(self, now_ms: int) -> None:
        """Empty the samples whose records are too old."""
        for sample in self._samples:
            if now_ms - sample.last_ms >= self._age_ms:
                sample.reset(now_ms)
        self._sum_up()

    def _sum_up(self) -> None:
        self._total = sum(sample.value for sample in self._samples)
        self._oldest_ms = min(sample.start_ms for sample in self._samples)
        self._review_ms = min(sample.last_ms for sample in self._samples) + self._age_ms
