"""A run that ends in time leaves out what would begin too late, and says so."""

from __future__ import annotations

import contextlib

import pytest

from interop.support.time_limit import TimeLimit


@pytest.mark.parametrize(("seconds", "begin"), [(0, {"slow", "quick"}), (50, {"quick"}), (61, set())])
def test_slow_tests_begin_in_the_first_two_thirds(
    seconds: float, begin: set[str], request: pytest.FixtureRequest
) -> None:
    clock = [0.0]
    limit = TimeLimit(60, lambda: clock[0])
    clock[0] = seconds
    found = set()
    for name in ("slow", "quick"):
        item = pytest.Function.from_parent(request.node.parent, name=name, callobj=lambda: None)
        if name == "slow":
            item.add_marker(pytest.mark.slow)
        with contextlib.suppress(pytest.skip.Exception):
            limit.pytest_runtest_setup(item)
            found.add(name)
    assert found == begin
