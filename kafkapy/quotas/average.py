"""An average over windows of time, such as that of throttle times.

There is no I/O here: times are arguments, in milliseconds, and never go back. Source: Kafka's Avg.
"""

from __future__ import annotations

from kafkapy.quotas.rate import Rate


class Average:
    """The average of what was recorded in the last windows."""

    __slots__ = ("_counts", "_values")

    def __init__(self, windows: int, window_ms: int) -> None:
        """Measure over `windows` windows of `window_ms` each."""
        self._values = Rate(windows, window_ms)
        self._counts = Rate(windows, window_ms)

    def record(self, value: float, now_ms: int) -> None:
        """Add `value`."""
        self._values.record(value, now_ms)
        self._counts.record(1, now_ms)

    def value(self, now_ms: int) -> float:
        """The average; 0 if nothing was recorded."""
        counts = self._counts.per_second(now_ms)
        return self._values.per_second(now_ms) / counts if counts else 0.0
