"""A run that ends in time on a slow machine, and says what it left out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import pytest

SHARE_OF_SLOW: Final = 2 / 3
"""Of the time, that in which slow tests begin: the quick ones, which show most in a minute, have the rest."""


class TimeLimit:
    """Skips the tests that would begin later than `seconds` after now."""

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._now, self._start = seconds, now, now()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        share = SHARE_OF_SLOW if item.get_closest_marker("slow") else 1
        if self._now() - self._start > self._seconds * share:
            pytest.skip(f"this machine is slow: {self._seconds:.0f} s were over; scripts/interop runs all")
