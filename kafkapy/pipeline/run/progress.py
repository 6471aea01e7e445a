"""How a run tells what it does: a bar in a terminal, a line for each batch elsewhere, or nothing."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress


@dataclass(frozen=True, kw_only=True)
class BatchReport:
    """A batch that is in the table; `read` are the records of the run so far, `lag` the offsets to come."""

    batch: int
    rows: int
    dead_letters: int
    seconds: float
    read: int
    lag: int

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0


class Progress:
    """Says nothing: for a program that runs a pipeline."""

    def __enter__(self) -> Self:
        return self

    def note(self, line: str) -> None:
        """Something other than a batch: that Spark starts, that the broker has gone."""

    def batch(self, report: BatchReport) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Lines(Progress):
    """A line for each batch on standard error, for logs."""

    def note(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    def batch(self, report: BatchReport) -> None:
        dead = f", {report.dead_letters:,} dead letters" if report.dead_letters else ""
        self.note(
            f"batch {report.batch}: {report.rows:,} rows in {report.seconds:.1f} s "
            f"({report.rows_per_second:,.0f}/s){dead}, lag {report.lag:,}"
        )


class Bar(Progress):
    """What was read of what there is, on standard error; the counts are those of this run."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._dead_letters = 0
        self._bar: RichProgress | None = None

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
        )

        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._bar.start()
        self._task = self._bar.add_task(self._name, total=None, figures="")
        return self

    def note(self, line: str) -> None:
        assert self._bar is not None
        self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def batch(self, report: BatchReport) -> None:
        assert self._bar is not None
        self._dead_letters += report.dead_letters
        figures = f"{report.rows_per_second:,.0f} rows/s · lag {report.lag:,}"
        if self._dead_letters:
            figures += f" · {self._dead_letters:,} dead letters"
        self._bar.update(self._task, completed=report.read, total=report.read + report.lag, figures=figures)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


def progress_for(name: str, *, quiet: bool) -> Progress:
    """What suits standard error."""
    if quiet:
        return Progress()
    return Bar(name) if sys.stderr.isatty() else Lines()
