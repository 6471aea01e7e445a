"""A broker works for hours, and holds no more than at the start (R20).

It has logins over TLS, an authorizer, quotas and metrics, and is restarted now and then. What its clients
saw is judged by the checker of histories.

    KAFKAPY_SOAK_MINUTES=60 KAFKAPY_SOAK_RESTART_MINUTES=60 \\
        pytest tests/soak --timeout 0 -o faulthandler_timeout=0
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.crash.results import note
from tests.network.raw_client import eventually
from tests.promises.checker import check
from tests.promises.history import Acked
from tests.security.certificates import make_certificates
from tests.soak.loads import Load, Records, all_loads
from tests.soak.secure_broker import SecureBroker
from tests.soak.vitals import Holdings, Memory, slope

MINUTES: Final = float(os.environ.get("KAFKAPY_SOAK_MINUTES", "1.5"))
SEED: Final = int(os.environ.get("KAFKAPY_SEED", str(random.SystemRandom().randrange(10**6))))
RESTART_MINUTES: Final = float(os.environ.get("KAFKAPY_SOAK_RESTART_MINUTES", str(min(10.0, MINUTES / 2))))
"""As long as MINUTES, the broker is not restarted before the end."""
WARM_UP: Final = 0.2
"""The part of the time between two restarts that does not count."""
SLOPE_MIB: Final = 1.0
"""A minute, where the time is long enough to tell."""
GROWTH_MIB: Final = 12.0
"""At most, whatever the time."""

EXPECTED: Final = (
    r'WARNING kafkapy\.security\.sasl\.login: The login of .* by PLAIN as "carol" failed: '
    r"|WARNING kafkapy\.network\.connection: Closing the connection of .*: the TLS handshake failed: "
)
"""Lines of the log that this load causes."""


@pytest.mark.slow
def test_a_broker_holds_no_more_after_hours_of_work(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    began = time.monotonic()
    periods: list[dict[str, object]] = []
    slopes: list[float] = []
    leaks: list[str] = []
    with SecureBroker(tmp_path / "broker", certificates) as broker:
        loads = list(all_loads(broker, certificates, SEED))
        while True:
            work(loads, RESTART_MINUTES * WARM_UP)
            before = quiet(broker)
            with Memory(broker) as memory:
                work(loads, RESTART_MINUTES * (1 - WARM_UP))
            after = quiet(broker)
            slopes.append(memory.slope_mib)
            leaks += leaked(before, after)
            periods.append(
                {
                    "memory_slope_mib_a_minute": round(memory.slope_mib, 3),
                    "memory_at_most_mib": round(memory.most_mib, 1),
                    "before": before._asdict(),
                    "after": after._asdict(),
                    "cpu_seconds": round(broker.cpu_seconds, 1),
                }
            )
            print(periods[-1], flush=True)
            failures = [failure for load in loads for failure in load.failures]
            if failures or (time.monotonic() - began) / 60 >= MINUTES:
                break
            assert broker.stop() == 0
            broker.start()
        (records,) = (load for load in loads if isinstance(load, Records))
        records.read()
        assert broker.stop() == 0
    done = sum((load.done for load in loads), Counter[str]())
    findings = check(records.history)
    surprises = unexpected(broker.log_path)
    note(
        "R20",
        "mixed load on a SASL_SSL listener with authorizer, quotas and metrics",
        tried=sum(count for what, count in done.items() if what.startswith("connections")),
        acknowledged=sum(isinstance(event, Acked) for event in records.history),
        lost=len(findings),
        minutes=round((time.monotonic() - began) / 60, 1),
        done=dict(sorted(done.items())),
        periods={str(number): period for number, period in enumerate(periods, 1)},
        unexpected_log_lines=len(surprises),
    )
    assert not failures
    assert not findings, findings[:10]
    assert not surprises, surprises[:10]
    assert not leaks
    assert all(each <= SLOPE_MIB for each in slopes) or MINUTES < 5, slopes
    assert all(each * RESTART_MINUTES <= GROWTH_MIB for each in slopes), slopes


def work(loads: Sequence[Load], minutes: float) -> None:
    """All loads at once, for so long, or until one fails."""
    for load in loads:
        load.start()
    deadline = time.monotonic() + minutes * 60
    eventually(
        lambda: time.monotonic() > deadline or any(load.failures for load in loads),
        "the time passes",
        minutes * 60 + 10,
    )
    for load in loads:
        load.stop()
    gc.collect()  # clients of librdkafka that call back end with the cycle that holds them


def quiet(broker: SecureBroker) -> Holdings:
    """What it holds when the clients are gone and nothing changes any more."""
    last = [Holdings.of(broker)]

    def settled() -> bool:
        time.sleep(0.5)
        last.append(Holdings.of(broker))
        return len(last) > 5 and len(set(last[-5:])) == 1 and not last[-1].deleted_files

    with contextlib.suppress(AssertionError):  # what is left is judged
        eventually(settled, "the broker comes to rest", 30)
    return last[-1]


def leaked(before: Holdings, after: Holdings) -> list[str]:
    """What there is more of than one in a hundred."""
    found = [
        f"{name}: {was} became {became}"
        for name, was, became in (
            ("tasks", before.tasks, after.tasks),
            ("descriptors", before.descriptors, after.descriptors),
        )
        if became > was * 1.01
    ]
    if after.deleted_files:
        found.append(f"deleted files are open: {after.deleted_files}")
    return found


def unexpected(log: Path) -> list[str]:
    """Warnings, errors and tracebacks that this load does not cause."""
    return [
        line
        for line in log.read_text().splitlines()
        if re.search(r" (WARNING|ERROR|CRITICAL) |Traceback", line) and not re.search(EXPECTED, line)
    ]


def test_the_slope_of_growing_memory_is_found_among_spikes() -> None:
    chance = random.Random(SEED)
    samples = [(second, second * 5 + chance.choice([0, 0, 0, 300])) for second in range(0, 600, 5)]
    assert 4 < slope(samples) < 6
