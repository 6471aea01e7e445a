"""Limits end a run, or call a command."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import LimitError
from kafkapy.pipeline.run.limits import Limits


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def limits(note: Any = pytest.fail, **values: Any) -> Limits:
    given = {"topic": "orders", "table": "delta:/lake/orders", **values}
    return Limits(PipelineDefinition.from_mapping(given), note)


def test_a_run_that_falls_behind_ends_with_what_it_found() -> None:
    limit = limits(max_lag=1_000)
    limit.check_lag({0: 600, 1: 400})
    with pytest.raises(LimitError) as ended:
        limit.check_lag({0: 600, 1: 401})
    assert str(ended.value) == (
        "orders: the lag of 1,001 offsets is over 1,000 (max_lag); the run ends, and the next one continues "
        "from here"
    )


def test_a_run_that_begins_behind_may_catch_up() -> None:
    limit = limits(max_lag=1_000)
    for lag in (5_000, 7_000, 900):
        limit.check_lag({0: lag})
    with pytest.raises(LimitError):
        limit.check_lag({0: 1_100})


def test_a_batch_that_takes_too_long_ends_the_run() -> None:
    limit = limits(max_batch_time="2m")
    limit.check_batch(7, 120)
    limit.check_lag({0: 10**9})
    with pytest.raises(LimitError, match=r"batch 7 has taken more than 2m \(max_batch_time\)"):
        limit.check_batch(7, 120.5)


def test_without_limits_nothing_ends_a_run() -> None:
    limit = limits()
    limit.check_lag({0: 0})
    limit.check_lag({0: 10**12})
    limit.check_batch(0, 10**6)


def test_a_command_is_called_once_until_the_value_is_within_again(tmp_path: Path) -> None:
    notes: list[str] = []
    program = (
        "import os, sys; open(sys.argv[1], 'a').write('|'.join(os.environ['KAFKAPY_' + name] "
        "for name in ('PIPELINE', 'LIMIT', 'MESSAGE')) + chr(10))"
    )
    said = tmp_path / "said by it"
    limit = limits(notes.append, max_lag=10, on_limit=f'{sys.executable} -c "{program}" "{said}"')
    for lag in (5, 11, 12):
        limit.check_lag({0: lag})
    wait_until(lambda: said.exists() and said.read_text().endswith("\n"))
    for lag in (10, 13):
        limit.check_lag({0: lag})
    wait_until(lambda: said.read_text().count("\n") == 2)
    assert said.read_text().splitlines() == [
        "orders|max_lag|orders: the lag of 11 offsets is over 10 (max_lag)",
        "orders|max_lag|orders: the lag of 13 offsets is over 10 (max_lag)",
    ]
    assert notes == [line.rpartition("|")[2] for line in said.read_text().splitlines()]


def test_too_many_dead_letters_end_the_run_before_they_are_written() -> None:
    limit = limits(max_dead_letters="1%", dead_letter="orders.dlq")
    limit.check_dead_letters(None)
    with pytest.raises(LimitError) as ended:
        limit.check_dead_letters("2 of the 100 records of batch 1 cannot become rows")
    assert str(ended.value).startswith(
        "orders: 2 of the 100 records of batch 1 cannot become rows; neither they nor the batch were written"
    )


def test_too_many_dead_letters_call_the_command_of_a_limit(tmp_path: Path) -> None:
    notes: list[str] = []
    said = tmp_path / "said by it"
    program = "import os, sys; open(sys.argv[1], 'a').write(os.environ['KAFKAPY_LIMIT'] + chr(10))"
    given = {"max_dead_letters": "1%", "dead_letter": "orders.dlq"}
    limit = limits(notes.append, on_limit=f'{sys.executable} -c "{program}" "{said}"', **given)
    for told in ("first", "second", None, "third"):
        limit.check_dead_letters(told)
    wait_until(lambda: said.exists() and said.read_text() == "max_dead_letters\n" * 2)
    assert notes == ["orders: first", "orders: third"]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("/nowhere/notify", "on_limit: /nowhere/notify cannot be run: No such file or directory"),
        (f"{sys.executable} -c 'raise SystemExit(3)'", "ended with status 3"),
    ],
)
def test_a_command_that_fails_does_not_end_the_run(command: str, told: str) -> None:
    notes: list[str] = []
    limit = limits(notes.append, max_batch_time="1s", on_limit=command)
    limit.check_batch(0, 2)

    def reported() -> bool:
        limit.check_batch(0, 2)
        return any(told in note for note in notes)

    wait_until(reported)
    assert len(notes) == 2
