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
ROUNDS: Final = 25
"""Each has calls of its own: their places in memory make more of a difference than the login."""
SIGNIFICANT: Final = 3.745
"""The t of 25 rounds that chance exceeds once in a thousand times (24 degrees of freedom)."""
TRIES: Final = 3
"""A real difference is there each time."""
PASSWORD: Final = "correct horse battery staple, and more of it"
WRONG_AT_ONCE: Final = "C" + PASSWORD[1:]
WRONG_AT_THE_END: Final = PASSWORD[:-1] + "T"

Call = Callable[[], object]


def signal(one: Callable[[], Call], other: Callable[[], Call], samples: int) -> float:
    """The t of the differences between the times of two calls, made anew for each round."""
    made = [(one(), other()) for _ in range(ROUNDS)]
    differences = [_difference(calls, samples // ROUNDS) for calls in made]
    return statistics.fmean(differences) / (statistics.stdev(differences) / math.sqrt(ROUNDS))


def _difference(calls: tuple[Call, Call], samples: int) -> float:
    """Between the mean times of two calls in random order, without the slowest tenth."""
    times: tuple[list[int], list[int]] = ([], [])
    for which in random.choices((0, 1), k=samples):
        started = time.perf_counter_ns()
        calls[which]()
        times[which].append(time.perf_counter_ns() - started)
    limit = statistics.quantiles(times[0] + times[1], n=10)[-1]
    first, second = ([each for each in some if each <= limit] for some in times)
    return statistics.fmean(first) - statistics.fmean(second)


def check_no_signal(what: str, one: Callable[[], Call], other: Callable[[], Call]) -> None:
    """Assert that the times of two calls tell them not apart."""
    found = []
    for _ in range(TRIES):
        found.append(signal(one, other, SAMPLES))
        if abs(found[-1]) < SIGNIFICANT:
            break
    note("R12", f"time of a failed login: {what}", tried=SAMPLES, t_at_most=round(abs(found[-1]), 2))
    assert abs(found[-1]) < SIGNIFICANT, found


def refused(user: str, password: str) -> Callable[[], Call]:
    """Makes calls that fail to log in, each with users and texts of its own."""

    def make() -> Call:
        users, name, wrong = ListedUsers({"user_alice": PASSWORD}), _copy(user), _copy(password)
        assert not asyncio.run(users.check(name, wrong))

        def call() -> None:
            coroutine = users.check(name, wrong)
            with contextlib.suppress(StopIteration):
                coroutine.send(None)

        return call

    return make


def _copy(text: str) -> str:
    return "".join(list(text))


def test_where_a_password_is_wrong_takes_no_time() -> None:
    check_no_signal(
        "the first byte or the last is wrong",
        refused("alice", WRONG_AT_ONCE),
        refused("alice", WRONG_AT_THE_END),
    )


def test_an_unknown_user_takes_no_less_time() -> None:
    check_no_signal(
        "the user is known or unknown",
        refused("alice", WRONG_AT_ONCE),
        refused("alicf", WRONG_AT_ONCE),
    )


def test_a_comparison_that_ends_at_the_first_difference_would_be_noticed() -> None:
    def hasty(password: str) -> Callable[[], Call]:
        return lambda: lambda: all(one == other for one, other in zip(PASSWORD, password, strict=True))

    assert abs(signal(hasty(WRONG_AT_ONCE), hasty(WRONG_AT_THE_END), 2000)) > SIGNIFICANT
