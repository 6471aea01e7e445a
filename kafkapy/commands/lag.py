"""`kafkapy lag`: the lag of groups, in records and in seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any, Final

import click

from kafkapy.commands.options import Session, connected
from kafkapy.commands.output import table

_COLUMNS: Final = ("group", "topic", "partition", "committed", "end", "lag")
# So long for the records that tell how old a lag is.
_READ_SECONDS: Final = 5.0


@click.command()
@click.argument("names", metavar="[GROUP]...", nargs=-1)
@click.option("--topic", "topics", multiple=True, help="Only this topic.")
@click.option("--lagging", is_flag=True, help="Only partitions with records to read.")
@click.option("--seconds", is_flag=True, help="Also how old the first record is that the group has not read.")
@click.option(
    "--watch", "-w", metavar="SECONDS", type=click.FloatRange(min=0.1), help="Again every so many seconds."
)
@connected
def lag(
    session: Session,
    names: tuple[str, ...],
    topics: tuple[str, ...],
    lagging: bool,
    seconds: bool,
    watch: float | None,
) -> None:
    """Show the lag of groups, or of all, by topic and partition."""
    columns = (*_COLUMNS, "seconds") if seconds else _COLUMNS

    def rows() -> list[dict[str, Any]]:
        return _rows(session, names, topics, lagging=lagging, seconds=seconds)

    if watch is None:
        session.output.rows(rows(), columns, empty="no group has a lag like this.")
        return
    try:
        if session.output.format == "text" and sys.stdout.isatty():
            _draw(rows, columns, watch)
        while True:
            session.output.rows(rows(), columns)
            time.sleep(watch)
    except KeyboardInterrupt:
        pass


def _rows(
    session: Session, names: Iterable[str], topics: Iterable[str], *, lagging: bool, seconds: bool
) -> list[dict[str, Any]]:
    from kafkapy.commands.group_state import known, lag_rows, listed

    if names := list(names):
        types = known(session.admin, names)
    else:
        types = {name: group["type"] for name, group in listed(session.admin).items()}
    topics = set(topics)
    rows = [
        row
        for row in lag_rows(session.admin, types)
        if (not topics or row["topic"] in topics) and (not lagging or row["lag"])
    ]
    if seconds:
        _add_seconds(session, rows)
    return rows


def _add_seconds(session: Session, rows: list[dict[str, Any]]) -> None:
    """Give each row the age of the first record that the group has not read."""
    from kafka.structs import TopicPartition

    from kafkapy.commands.reading import Reader

    unread = [row for row in rows if row["lag"]]
    for row in rows:
        row["seconds"] = None if row["lag"] is None else 0.0
    # One group at a time: a consumer reads a partition at one place.
    for group in dict.fromkeys(row["group"] for row in unread):
        wanted = {
            TopicPartition(row["topic"], row["partition"]): row for row in unread if row["group"] == group
        }
        for row in wanted.values():
            row["seconds"] = None
        # A broker sends at least one batch of a partition, however small the limit.
        with Reader(session, max_partition_fetch_bytes=1, auto_offset_reset="earliest") as reader:
            reader.begin({place: row["committed"] for place, row in wanted.items()})
            deadline = time.monotonic() + _READ_SECONDS
            for records in reader.records():
                for record in records:
                    place = TopicPartition(record.topic, record.partition)
                    if place in wanted:
                        row = wanted.pop(place)
                        row["seconds"] = round(max(time.time() - record.timestamp / 1000, 0), 1)
                if not wanted or time.monotonic() > deadline:
                    break


def _draw(rows: Any, columns: Iterable[str], every: float) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    with Live(auto_refresh=False, screen=True) as live:
        while True:
            found = rows()
            total = sum(row["lag"] or 0 for row in found)
            below = Text(
                f"{total:,} records to read at {time.strftime('%H:%M:%S')}. Ctrl-C ends.", style="reverse"
            )
            live.update(Group(table(found, list(columns)), below), refresh=True)
            time.sleep(every)
