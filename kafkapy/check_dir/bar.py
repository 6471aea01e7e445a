"""How far a check is, as a bar in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn


@contextmanager
def check_bar(total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error; what is yielded is to be called with the bytes that were read."""
    bar = Progress(
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=total)
        yield lambda nbytes: bar.update(task, advance=nbytes)
