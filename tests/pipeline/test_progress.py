"""What a person sees of a run."""

from __future__ import annotations

import pytest

from kafkapy.pipeline.run.progress import Bar, BatchReport, Lines, Progress, progress_for

BATCH = BatchReport(batch=3, rows=1_500, dead_letters=2, seconds=0.5, read=4_502, lag=1_000)


def test_a_line_for_each_batch(capsys: pytest.CaptureFixture[str]) -> None:
    with Lines() as progress:
        progress.batch(BATCH)
    assert capsys.readouterr().err == "batch 3: 1,500 rows in 0.5 s (3,000/s), 2 dead letters, lag 1,000\n"


def test_a_bar_shows_what_was_read_of_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    with Bar("orders") as progress:
        progress.note("Starting Spark")
        progress.batch(BATCH)
    told = capsys.readouterr().err
    assert "Starting Spark" in told
    assert "orders" in told
    assert "4502/5502" in told
    assert "3,000 rows/s" in told


def test_bars_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(progress_for("orders", quiet=True)) is Progress
    assert type(progress_for("orders", quiet=False)) is Lines
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert type(progress_for("orders", quiet=False)) is Bar
