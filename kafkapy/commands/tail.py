"""`kafkapy tail`: the last records of topics, and those that come."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import click

from kafkapy.commands import records
from kafkapy.commands.options import Session, connected, filtered
from kafkapy.commands.output import printable
from kafkapy.commands.units import time_text
from kafkapy.errors import UserError

if TYPE_CHECKING:
    from kafkapy.commands.decoding.decoder import Decoder
    from kafkapy.commands.record_filter import RecordFilter

# The rate that is shown is that of the last seconds.
_RATE_SECONDS: Final = 5.0
# New topics and partitions are looked for so often.
_LOOK_SECONDS: Final = 5.0
_PARTS: Final = {"timestamp": True, "partition": True, "offset": True, "key": True}
_PATTERN: Final = frozenset("*?[")
"""No name of a topic has these."""


@click.command()
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option(
    "--lines", "-n", type=click.IntRange(min=0), default=10, show_default=True, help="The last of each."
)
@click.option("--max-messages", type=click.IntRange(min=1), help="End after so many records.")
@filtered
@connected
def tail(
    session: Session, topics: tuple[str, ...], lines: int, max_messages: int | None, choice: RecordFilter
) -> None:
    """Show the last records of topics, and follow them until Ctrl-C.

    A TOPIC may be a pattern such as 'orders.*', for topics that are made later, too. On a terminal, the rate
    is below the records. Filters see all that is read: --lines counts records before them.
    """
    from kafkapy.commands.reading import Reader, last_records, starts

    partitions = _partitions(session, topics)
    begin = last_records(session.admin, partitions, lines)
    count, read, times = 0, 0, deque[float]()
    decoder = choice.decoder
    looked = time.monotonic()
    with Reader(session) as reader, _screen(session, decoder) as draw:
        reader.begin(begin)
        try:
            for found in reader.records():
                # Those of one poll come from several partitions: people read them in the order of time.
                for record in sorted(found, key=lambda record: record.timestamp):
                    read += 1
                    times.append(time.monotonic())
                    if not choice.takes(record):
                        continue
                    draw.record(record)
                    count += 1
                    if count == max_messages:
                        return
                now = time.monotonic()
                while times and times[0] < now - _RATE_SECONDS:
                    times.popleft()
                if now - looked > _LOOK_SECONDS:
                    looked = now
                    new = [each for each in _partitions(session, topics) if each not in begin]
                    if new:
                        added = starts(session.admin, new)
                        begin |= added
                        reader.begin_too(added)
                shown = f"{count:,} of {read:,}" if count != read else f"{count:,}"
                draw.status(f"{', '.join(topics)}: {shown} records, {len(times) / _RATE_SECONDS:,.0f}/s")
        except KeyboardInterrupt:
            pass


def _partitions(session: Session, topics: Sequence[str]) -> list[Any]:
    """The partitions of topics that are named or match; raises UserError if none does."""
    patterns = [name for name in topics if _PATTERN & set(name)]
    named = [name for name in topics if name not in patterns]
    partitions = dict.fromkeys(session.admin.partitions(named)) if named else {}
    if patterns:
        for each in session.admin.partitions():
            if any(fnmatchcase(each.topic, pattern) for pattern in patterns):
                partitions[each] = None
        if not partitions:
            raise UserError(f"no topic matches {', '.join(patterns)}; kafkapy topics list names all")
    return list(partitions)


class _Lines:
    """Output that is no terminal: a line a record, and no status."""

    def __init__(self, session: Session, decoder: Decoder) -> None:
        self._output, self._decoder = session.output, decoder

    def record(self, record: Any) -> None:
        self._output.line(*records.decoded(record, _PARTS, self._decoder))

    def status(self, text: str) -> None:
        """A file has no status."""


class _Screen:
    """A terminal: records in colour, with the status below them."""

    def __init__(self, print_: Callable[..., None], update: Callable[..., None], decoder: Decoder) -> None:
        self._print, self._update, self._decoder = print_, update, decoder

    def record(self, record: Any) -> None:
        from rich.text import Text

        line = Text()
        line.append(time_text(record.timestamp) or "-", style="dim")
        line.append(f" {record.topic}-{record.partition}@{record.offset} ", style="cyan")
        if record.key is not None:
            line.append(printable(self._decoder.text(record.key)), style="yellow")
            line.append(" ")
        style = "dim italic" if record.value is None else ""
        line.append(printable(self._decoder.text(record.value)), style=style)
        self._print(line)

    def status(self, text: str) -> None:
        from rich.text import Text

        self._update(Text(f"{text}. Ctrl-C ends.", style="reverse"))


@contextmanager
def _screen(session: Session, decoder: Decoder) -> Iterator[_Lines | _Screen]:
    if session.output.format != "text" or not sys.stdout.isatty():
        yield _Lines(session, decoder)
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    with Live(console=console, transient=True, refresh_per_second=4) as live:
        yield _Screen(console.print, live.update, decoder)
