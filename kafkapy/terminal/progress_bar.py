"""A progress bar on standard error.

It is shown only if standard error is a terminal. Otherwise only lines are written, so that bars do not fill a
log, and rich is not imported, which is slow.
"""

from __future__ import annotations

import sys
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn


class Unit(Enum):
    """What is counted."""

    THINGS = "things"
    BYTES = "bytes"


class ProgressBar:
    """A bar with the text `what` before it.

    Its methods may be called in any thread.
    """

    def __init__(self, what: str, *, unit: Unit = Unit.THINGS, stays: bool = False) -> None:
        """With `stays`, the bar remains visible after its end."""
        self._what, self._unit, self._stays = what, unit, stays
        self._bar: Progress | None = None

    @property
    def shown(self) -> bool:
        """Whether the bar is visible.

        True only within its `with` block.
        """
        return self._bar is not None

    def __enter__(self) -> Self:
        if not sys.stderr.isatty():
            return self
        from rich.console import Console
        from rich.progress import Progress

        self._bar = Progress(
            *_columns(self._unit),
            console=Console(stderr=True),
            transient=not self._stays,
            redirect_stdout=False,  # rich would redirect output that belongs into a file
        )
        self._task = self._bar.add_task(self._what, total=None, figures="")
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def advance(self, count: int) -> None:
        """Add `count` to the number done."""
        if self._bar is not None:
            self._bar.update(self._task, advance=count)

    def expect(self, total: int) -> None:
        """Set the total."""
        if self._bar is not None:
            self._bar.update(self._task, total=total)

    def reach(self, done: int, total: int) -> None:
        """Set the number done and the total."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total)

    def tell(self, figures: str) -> None:
        """Set the text after the bar."""
        if self._bar is not None:
            self._bar.update(self._task, figures=figures)

    def note(self, line: str) -> None:
        """Write a line to standard error, above the bar."""
        if self._bar is None:
            print(line, file=sys.stderr, flush=True)
        else:
            self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def echo(self, line: str) -> None:
        """Write a line to standard output, above the bar if both are on a terminal."""
        if self._bar is not None and sys.stdout.isatty():
            self.note(line)
        else:
            click.echo(line)


def _columns(unit: Unit) -> list[ProgressColumn]:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    what, figures = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[figures]}")
    if unit is Unit.BYTES:
        counts: list[ProgressColumn] = [DownloadColumn(), TransferSpeedColumn()]
        return [what, BarColumn(), *counts, figures, TimeRemainingColumn()]
    return [what, BarColumn(), MofNCompleteColumn(), figures, TimeElapsedColumn()]
