"""Clients in a process of their own give their result, or say that they have failed."""

from __future__ import annotations

import pytest

from scripts.benchmarks.other_process import AtWork, running


def add_one(at_work: AtWork, number: int) -> int:
    at_work.set()
    return number + 1


def fail_at_work(at_work: AtWork) -> None:
    at_work.set()
    raise ValueError("at work")


def fail_before(_at_work: AtWork) -> None:
    raise ValueError("before")


def test_the_result_is_what_the_work_returns() -> None:
    with running(add_one, 6) as process:
        assert process.result() == 7


def test_work_that_fails_has_no_result() -> None:
    with running(fail_at_work) as process, pytest.raises(RuntimeError, match="fail_at_work has failed"):
        process.result()


def test_work_that_fails_before_it_is_at_work_does_not_begin_the_block() -> None:
    with pytest.raises(RuntimeError, match="fail_before has failed"), running(fail_before):
        pass
