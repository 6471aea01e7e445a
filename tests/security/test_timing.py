"""The time of a failed login shows neither the password nor whether the user exists."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import random
import statistics
import time
from collections.abc import Callable
from typing import Final

from kafkapy.security.sasl.plain import ListedUsers
from tests.crash.results import note

SAMPLES: Final = int(os.environ.get("KAFKAPY_TIMING_SAMPLES", "20000"))
"""A release has 100,000."""
SIGNIFICANT: Final = 3.29
"""The t that random times exceed once in a thousand times."""
TRIES: Final = 3
"""A real difference is there each time."""
PASSWORD: Final = "correct horse battery staple, and more of it"
WRONG_AT_ONCE: Final = "C" + PASSWORD[1:]
WRONG_AT_THE_END: Final = PASSWORD[:-1] + "T"

Call = Callable[[], object]


def signal(one: Call, other: Call, samples: int) -> float:
    """Welch's t of the times of two calls, in random order, without the slowest tenth."""
    times: tuple[list[int], list[int]] = ([], [])
    calls = (one, other)
    for which in random.choices((0, 1), k=samples):
        started = time.perf_counter_ns()
        calls[which]()
        times[which].append(time.perf_counter_ns() - started)
    limit = statistics.quantiles(times[0] + times[1], n=10)[-1]
    first, second = ([each for each in some if each <= limit] for some in times)
    spread = statistics.variance(first) / len(first) + statistics.variance(second) / len(second)
    return (statistics.fmean(first) - statistics.fmean(second)) / math.sqrt(spread)


def check_no_signal(what: str, one: Call, other: Call, samples: int = SAMPLES) -> None:
    """Assert that the times of two calls tell them not apart."""
    found = []
    for _ in range(TRIES):
        found.append(signal(one, other, samples))
        if abs(found[-1]) < SIGNIFICANT:
            break
    note("R12", f"time of a failed login: {what}", tried=samples, t_at_most=round(abs(found[-1]), 2))
    assert abs(found[-1]) < SIGNIFICANT, found


def refused(users: ListedUsers, user: str, password: str) -> Call:
    assert not asyncio.run(users.check(user, password))

    def call() -> None:
        coroutine = users.check(user, password)
        with contextlib.suppress(StopIteration):
            coroutine.send(None)

    return call


USERS = ListedUsers({"user_alice": PASSWORD})


def test_where_a_password_is_wrong_takes_no_time() -> None:
    check_no_signal(
        "the first byte or the last is wrong",
        refused(USERS, "alice", WRONG_AT_ONCE),
        refused(USERS, "alice", WRONG_AT_THE_END),
    )


def test_an_unknown_user_takes_no_less_time() -> None:
    check_no_signal(
        "the user is known or unknown",
        refused(USERS, "alice", WRONG_AT_ONCE),
        refused(USERS, "alicf", WRONG_AT_ONCE),
    )


def test_a_comparison_that_ends_at_the_first_difference_would_be_noticed() -> None:
    def hasty(password: str) -> Call:
        return lambda: all(one == other for one, other in zip(PASSWORD, password, strict=True))

    assert abs(signal(hasty(WRONG_AT_ONCE), hasty(WRONG_AT_THE_END), 2000)) > SIGNIFICANT
