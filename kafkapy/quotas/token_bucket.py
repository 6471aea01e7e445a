"""A bucket of tokens, which a rate fills and changes empty.

The bucket holds what the rate brings in all windows together, and begins full. What is taken may be more than
there is: the bucket is then below zero, and nothing may be taken until it is not. So a large change is made
at once, and paid for by a pause.

There is no I/O here: times are arguments, in milliseconds. Source: Kafka's TokenBucket,
ControllerMutationQuotaManager (KIP-599).
"""

from __future__ import annotations

import math

from kafkapy.quotas.rate import LONGEST_MS


class TokenBucket:
    """The tokens of one quota."""

    __slots__ = ("_filled_ms", "_seconds", "_tokens")

    def __init__(self, windows: int, window_ms: int) -> None:
        """Hold what a rate brings in `windows` windows of `window_ms` each."""
        self._seconds = windows * window_ms / 1000
        self._tokens = 0.0
        self._filled_ms: int | None = None
        """When it was filled last; None: it is full."""

    def tokens(self, rate: float, now_ms: int) -> float:
        """What there is now, with `rate` tokens in a second; below zero, nothing may be taken."""
        most = self._seconds * rate
        if self._filled_ms is None:
            self._tokens = most
        else:
            self._tokens = min(most, self._tokens + rate * ((now_ms - self._filled_ms) / 1000))
        self._filled_ms = now_ms
        return self._tokens

    def take(self, count: float, rate: float, now_ms: int) -> None:
        """Take tokens, also if there are fewer."""
        self._tokens = min(self._seconds * rate, self.tokens(rate, now_ms) - count)

    def throttle_ms(self, rate: float, now_ms: int) -> int:
        """For how long nothing may be taken; 0 if something may be."""
        tokens = self.tokens(rate, now_ms)
        return min(math.floor(-tokens / rate * 1000 + 0.5), LONGEST_MS) if tokens < 0 else 0
