"""`kafkapy tail`: the last records of topics, and those that come."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import click

from kafkapy.commands import records
from kafkapy.commands.options import Session, connected
from kafkapy.commands.output import printable
from kafkapy.commands.units import time_text

# The rate that is shown is that of the last seconds.
_RATE_SECONDS: Final = 5.0
_PARTS: Final = {"timestamp": True, "partition": True, "offset": True, "key": True}


@click.command()
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option(
    "--lines", "-n", type=click.IntRange(min=0), default=10, show_default=True, help="The last of each."
)
@click.option("--max-messages", type=click.IntRange(min=1), help="End after so many records.")
@connected
def tail(session: Session, topics: tuple[str, ...], lines: int, max_messages: int | None) -> None:
    """Show the last records of topics, and follow them until Ctrl-C.

    On a terminal, with their rate below.
    """
    from kafkapy.commands.reading import Reader, last_records

    partitions = session.admin.partitions(topics)
    begin = last_records(session.admin, partitions, lines)
    count, times = 0, deque[float]()
    with Reader(session) as reader, _screen(session) as draw:
        reader.begin(begin)
        try:
            for found in reader.records():
                # Those of one poll come from several partitions: people read them in the order of time.
                for record in sorted(found, key=lambda record: record.timestamp):
                    draw.record(record)
                    count += 1
                    times.append(time.monotonic())
                    if count == max_messages:
                        return
                while times and times[0] < time.monotonic() - _RATE_SECONDS:
                    times.popleft()
                draw.status(f"{', '.join(topics)}: {count:,} records, {len(times) / _RATE_SECONDS:,.0f}/s")
        except KeyboardInterrupt:
            pass


class _Lines:
    """Output that is no terminal: a line a record, and no status."""

    def __init__(self, session: Session) -> None:
        self._output = session.output

    def record(self, record: Any) -> None:
        self._output.line(records.row(record), records.line(record, _PARTS))

    def status(self, text: str) -> None:
        """A file has no status."""


class _Screen:
    """A terminal: records in colour, with the status below them."""

    def __init__(self, print_: Callable[..., None], update: Callable[..., None]) -> None:
        self._print, self._update = print_, update

    def record(self, record: Any) -> None:
        from rich.text import Text

        line = Text()
        line.append(time_text(record.timestamp) or "-", style="dim")
        line.append(f" {record.topic}-{record.partition}@{record.offset} ", style="cyan")
        if record.key is not None:
            line.append(printable(records.text(record.key)), style="yellow")
            line.append(" ")
        style = "dim italic" if record.value is None else ""
        line.append(printable(records.text(record.value)), style=style)
        self._print(line)

    def status(self, text: str) -> None:
        from rich.text import Text

        self._update(Text(f"{text}. Ctrl-C ends.", style="reverse"))


@contextmanager
def _screen(session: Session) -> Iterator[_Lines | _Screen]:
    if session.output.format != "text" or not sys.stdout.isatty():
        yield _Lines(session)
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    with Live(console=console, transient=True, refresh_per_second=4) as live:
        yield _Screen(console.print, live.update)
