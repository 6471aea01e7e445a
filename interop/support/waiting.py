"""Waiting for what a broker may show a moment after it acknowledged it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T],
    *,
    timeout: float = 30.0,
    ignoring: type[Exception] | tuple[type[Exception], ...] = (),
    pause: float = 0.05,
) -> T:
    """The first true answer of `condition`; fails with its last answer or error when time is up.

    Apache Kafka's KRaft brokers learn of a created topic a moment after CreateTopics was answered.
    """
    deadline = time.monotonic() + timeout
    while True:
        last: object
        try:
            answer = condition()
            if answer:
                return answer
            last = answer
        except ignoring as error:
            last = error
        assert time.monotonic() < deadline, f"after {timeout:g} s still {last!r}"
        time.sleep(pause)
