"""How far an export is, as a bar in the terminal."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import (
    Progress as Bar,
)

from kafkapy.pipeline.log_source.export import Progress


class ExportBar(Progress):
    """A bar on standard error: bytes of log read, how fast, rows, the time it takes yet."""

    def __init__(self, topic: str) -> None:
        self._bar = Bar(
            TextColumn(topic, markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TextColumn("{task.fields[rows]:,} rows"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("", total=None, rows=0)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def planned(self, nbytes: int) -> None:
        self._bar.update(self._task, total=nbytes)

    def read(self, nbytes: int, rows: int) -> None:
        # From several threads: the sum of rows may lag behind by a batch for a moment.
        [task] = self._bar.tasks
        self._bar.update(self._task, advance=nbytes, rows=task.fields["rows"] + rows)
