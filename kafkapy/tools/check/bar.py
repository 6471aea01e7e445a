"""The progress of a check as a bar in the terminal."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn


class CheckBar:
    """A bar on standard error with bytes read, speed and time left; lines go above it."""

    def __init__(self, total: int) -> None:
        self._console = Console(stderr=True)
        self._bar = Progress(
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            redirect_stdout=False,  # otherwise output for a file would go to standard error
        )
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def read(self, nbytes: int) -> None:
        """Move the bar: `nbytes` more were read."""
        self._bar.update(self._task, advance=nbytes)

    def tell(self, line: str) -> None:
        """Print a line to standard output, which may share the terminal with the bar."""
        if sys.stdout.isatty():
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            click.echo(line)
