"""Waits for conditions that may hold only a moment after an acknowledgement."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

OPEN_AT_MOST_MS = 900_000
"""The timeout of transactions that tests leave open: on a busy machine, 60 s, the default, are soon over."""


def wait_until(
    condition: Callable[[], T],
    *,
    timeout: float = 30.0,
    ignoring: type[Exception] | tuple[type[Exception], ...] = (),
    pause: float = 0.05,
) -> T:
    """Return the first true result of `condition`; at the timeout, fail with its last result.

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
