"""The progress bar of a long command, as users see it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafkapy.terminal.progress_bar import ProgressBar, Unit
from tests.terminals import in_a_terminal


def work(bar: ProgressBar) -> None:
    bar.expect(2_000_000)
    bar.advance(500_000)
    bar.tell("7 rows")
    bar.note("a note")
    bar.echo("a line of output")


def test_no_bar_is_written_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("orders", unit=Unit.BYTES) as bar:
        work(bar)
        assert not bar.shown
    assert capsys.readouterr() == ("a line of output\n", "a note\n")


def test_a_terminal_has_a_bar_and_standard_output_stays_as_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_terminal(monkeypatch, "stderr", columns=150)
    with ProgressBar("orders [all]", unit=Unit.BYTES) as bar:
        work(bar)
        assert bar.shown
    output, told = capsys.readouterr()
    assert output == "a line of output\n"
    for each in ("orders [all]", "0.5/2.0 MB", "7 rows", "a note\n"):
        assert each in told


def test_things_are_counted_one_by_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_terminal(monkeypatch, "stderr", columns=150)
    with ProgressBar("Copying partitions", stays=True) as bar:
        bar.reach(3, 12)
    assert "3/12" in capsys.readouterr().err.replace(" ", "")


def test_a_bar_that_is_not_shown_imports_no_rich() -> None:
    program = (
        "import sys; from kafkapy.terminal.progress_bar import ProgressBar\n"
        "with ProgressBar('orders') as bar: bar.reach(1, 2)\n"
        "print('rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
