"""How CPU time grows, measured on a machine where others compute too."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

ROUNDS = 6


def cost(call: Callable[[], object]) -> float:
    """The CPU seconds that a call takes in this thread, without collections of garbage."""
    gc.collect()
    gc.disable()
    try:
        started = time.thread_time()
        call()
        return time.thread_time() - started
    finally:
        gc.enable()


def assert_costs_less(large: Callable[[], object], times: float, small: Callable[[], object]) -> None:
    """Assert that `large` costs less than so many times what `small` costs.

    Both are run in turn, and the cheapest run of each counts: what others do on the machine makes a run
    dearer, by its caches and its other half of a core, and never cheaper. It takes more runs until the
    assertion holds, so that a disturbance must last for all of them to be taken for a cost.
    """
    cheap = dear = float("inf")
    for _ in range(ROUNDS):
        cheap, dear = min(cheap, cost(small)), min(dear, cost(large))
        if dear < times * cheap:
            return
    raise AssertionError(f"it costs {dear / cheap:.1f} times as much, {dear:.4f} s of CPU time")
