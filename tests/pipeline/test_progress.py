"""The progress of a run as users see it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkapy.pipeline.run.maintenance import Maintained
from kafkapy.pipeline.run.progress import BatchReport, Shown
from tests.terminals import in_a_terminal

BATCH = BatchReport(batch=3, rows=1_500, dead_letters=2, seconds=0.5, read=4_502, lag=1_000)


def test_a_line_for_each_batch(capsys: pytest.CaptureFixture[str]) -> None:
    with Shown("orders") as progress:
        progress.batch(BATCH)
    assert capsys.readouterr().err == "batch 3: 1,500 rows in 0.5 s (3,000/s), 2 dead letters, lag 1,000\n"


def test_a_line_tells_of_the_maintenance_after_its_batch() -> None:
    done = Maintained(("merged 16 small files",), 1.23)
    assert replace(BATCH, maintained=done).to_line().endswith(", lag 1,000; merged 16 small files, in 1.2 s")


def test_records_that_were_left_out_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with Shown("orders") as progress:
        progress.batch(replace(BATCH, dead_letters=0, left_out=1_200))
    assert capsys.readouterr().err == "batch 3: 1,500 rows in 0.5 s (3,000/s), 1,200 left out, lag 1,000\n"


def test_a_bar_shows_what_was_read_of_what_there_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_terminal(monkeypatch, "stderr", columns=150)
    with Shown("orders") as progress:
        progress.note("Starting Spark")
        progress.batch(BATCH)
    told = capsys.readouterr().err
    assert "Starting Spark" in told
    assert "orders" in told
    assert "4502/5502" in told
    assert "3,000 rows/s · lag 1,000 · 2 dead letters" in told
