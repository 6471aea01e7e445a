"""What all tests share: how pytest-xdist's workers divide them, and that no example is held to a time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("kafkapy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kafkapy")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first, so that no worker ends long after the other."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, sched: Any) -> None:
    """Let a file go on after the test that ended its worker: xdist would start with that test again.

    It would also give other workers the files that this worker had finished, and a worker that gets nothing
    to run stands still.
    """
    for file, tests in list(sched.workqueue.items()):
        if crashitem in tests:
            tests[crashitem] = True
        if all(tests.values()):
            del sched.workqueue[file]
