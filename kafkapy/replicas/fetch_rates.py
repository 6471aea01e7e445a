"""How often the fetchers of a broker ask their leaders, for the metrics.

The rate of each is that of Apache Kafka's meters: it forgets what is past, by a factor of e in a minute.
"""

from __future__ import annotations

import math
from typing import Final

_SECONDS: Final = 60.0


class FetchRate:
    """The rate of one fetcher."""

    __slots__ = ("_at", "_rate")

    def __init__(self, now: float) -> None:
        self._rate = 0.0
        self._at = now

    def fetched(self, now: float) -> None:
        """Count a fetch."""
        self._rate, self._at = self.at(now) + 1 / _SECONDS, now

    def at(self, now: float) -> float:
        """The fetches a second."""
        return self._rate * math.exp((self._at - now) / _SECONDS)


class FetchRates:
    """The rates of all fetchers of a broker, by their names."""

    def __init__(self) -> None:
        self._of: dict[str, FetchRate] = {}

    def begin(self, name: str, now: float) -> FetchRate:
        """The rate of a new fetcher."""
        rate = self._of[name] = FetchRate(now)
        return rate

    def end(self, name: str, rate: FetchRate) -> None:
        """Forget the rate of a fetcher that has ended."""
        if self._of.get(name) is rate:
            del self._of[name]

    def slowest(self, now: float) -> float:
        """The lowest rate, in fetches a second; 0 without fetchers."""
        return min((rate.at(now) for rate in self._of.values()), default=0.0)
