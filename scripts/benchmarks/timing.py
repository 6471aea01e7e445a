"""CPU time of one call in this process."""

from __future__ import annotations

import time
from collections.abc import Callable

_ROUNDS = 5


def cpu_seconds(call: Callable[[], object], seconds: float) -> float:
    """CPU seconds of one call: the least of five rounds, which together take about `seconds`."""
    call()
    once = _seconds_of(call, 1)
    count = max(1, int(seconds / _ROUNDS / max(once, 1e-7)))
    return min(_seconds_of(call, count) for _ in range(_ROUNDS)) / count


def _seconds_of(call: Callable[[], object], count: int) -> float:
    start = time.process_time()
    for _ in range(count):
        call()
    return time.process_time() - start
