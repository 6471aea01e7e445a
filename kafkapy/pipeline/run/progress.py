"""Progress of a run: a bar in a terminal, a line for each batch, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from kafkapy.pipeline.run.maintenance import Maintained
from kafkapy.terminal.progress_bar import ProgressBar


@dataclass(frozen=True, kw_only=True)
class BatchReport:
    """A batch that was written.

    `read` is the run's number of records so far, `lag` the offsets left to read, `reasons` the dead letters
    by reason. `left_out` are records that become neither rows nor dead letters.
    """

    batch: int
    rows: int
    dead_letters: int
    seconds: float
    read: int
    lag: int
    left_out: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    maintained: Maintained = field(default_factory=Maintained)

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0

    def to_line(self) -> str:
        dead = f", {self.dead_letters:,} dead letters" if self.dead_letters else ""
        dead += f", {self.left_out:,} left out" if self.left_out else ""
        done = f"; {self.maintained}" if self.maintained.done else ""
        return (
            f"batch {self.batch}: {self.rows:,} rows in {self.seconds:.1f} s "
            f"({self.rows_per_second:,.0f}/s){dead}, lag {self.lag:,}{done}"
        )


class Progress:
    """Shows nothing, for a program that runs a pipeline.

    `watches_lag` says that it wants to be told the lag between batches too.
    """

    watches_lag = False

    def __enter__(self) -> Self:
        return self

    def note(self, line: str) -> None:
        """Shows an event other than a batch, such as Spark's start or the loss of the broker."""

    def batch(self, report: BatchReport) -> None: ...

    def lag(self, partitions: Mapping[int, int]) -> None:
        """Shows how many offsets are left to read in each partition."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Shown(Progress):
    """Shows a bar of the records read in a terminal, and a line for each batch elsewhere."""

    def __init__(self, name: str) -> None:
        self._bar = ProgressBar(name, stays=True)
        self._dead_letters = 0

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def note(self, line: str) -> None:
        self._bar.note(line)

    def batch(self, report: BatchReport) -> None:
        if not self._bar.shown:
            self.note(report.to_line())
            return
        self._dead_letters += report.dead_letters
        figures = f"{report.rows_per_second:,.0f} rows/s · lag {report.lag:,}"
        if self._dead_letters:
            figures += f" · {self._dead_letters:,} dead letters"
        self._bar.reach(report.read, report.read + report.lag)
        self._bar.tell(figures)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.__exit__(kind, error, trace)


class Lines(Progress):
    """Gives lines with the pipeline's name to `write`, which gets those of others too."""

    def __init__(self, name: str, write: Callable[[str], None]) -> None:
        self._start, self._write = f"{name}: ", write

    def note(self, line: str) -> None:
        self._write(line if line.startswith(self._start) else f"{self._start}{line}")

    def batch(self, report: BatchReport) -> None:
        self.note(report.to_line())
