"""An answer that waits for parts is given once, after the last of them."""

from __future__ import annotations

import pytest

from kafkapy.coordination.answer import Join


@pytest.fixture
def calls() -> list[str]:
    return []


def test_parts_that_end_at_once_are_joined_when_no_more_begin(calls: list[str]) -> None:
    join = Join(lambda: calls.append("done"))
    for _ in range(2):
        join.begin()
        join.end()
    assert calls == []
    join.close()
    assert calls == ["done"]


def test_parts_that_end_later_are_joined_by_the_last(calls: list[str]) -> None:
    join = Join(lambda: calls.append("done"))
    join.begin()
    join.begin()
    join.close()
    join.end()
    assert calls == []
    join.end()
    assert calls == ["done"]


def test_without_parts_nothing_waits(calls: list[str]) -> None:
    Join(lambda: calls.append("done")).close()
    assert calls == ["done"]


def test_a_part_ends_once() -> None:
    join = Join(lambda: None)
    join.close()
    with pytest.raises(AssertionError, match="ends once"):
        join.end()
