"""`kafkapy top`: what happens in a cluster now."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from kafkapy.commands.options import Session, connected
from kafkapy.commands.output import aligned, table
from kafkapy.commands.units import size_text
from kafkapy.errors import UserError
from kafkapy.terminal.keys import pressed_keys

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kafkapy.commands.cluster_sample import ClusterSample

_SORTS: Final = {
    "records": ("records_per_second", "lag"),
    "bytes": ("bytes_per_second", "lag"),
    "size": ("bytes", "lag"),
    "lag": ("records_per_second", "lag"),
    "trend": ("records_per_second", "lag_per_second"),
    "name": ("topic", "group"),
}
"""By what topics and groups are sorted; the first letter is the key that chooses it."""
_COLUMNS: Final = {
    "topics": ("topic", "partitions", "records/s", "bytes/s", "size"),
    "groups": ("group", "type", "state", "lag", "trend"),
    "brokers": ("broker", "host", "leads", "records/s", "bytes/s", "size"),
    "under_replicated": ("topic", "partition", "leader", "isr", "missing"),
}
_HELP: Final = "r records  b bytes  s size  l lag  t trend  n name  q ends"
_TREND: Final = ("falls", "-", "grows")


@click.command()
@click.option(
    "--interval", "-i", metavar="SECONDS", type=click.FloatRange(min=0.1), default=2.0, show_default=True
)
@click.option("--sort", type=click.Choice(list(_SORTS)), default="records", show_default=True)
@click.option(
    "--limit", "-n", type=click.IntRange(min=1), default=10, show_default=True, help="Rows of each table."
)
@click.option("--internal", is_flag=True, help="Show the topics of the brokers, too.")
@click.option("--once", is_flag=True, help="Look twice, --interval apart, show what changed, and end.")
@connected
def top(session: Session, interval: float, sort: str, limit: int, internal: bool, once: bool) -> None:
    """Show the topics, groups and brokers of a cluster by what they do now, until Ctrl-C or q.

    Rates are those of the last interval: of records that were appended, and of bytes in the leaders' logs. A
    group's trend is how much its lag grows in a second. On a terminal, keys choose the order.
    """
    from kafkapy.commands.cluster_sample import changes, sample

    before = sample(session.admin)
    if once or session.output.format != "text" or not sys.stdout.isatty():
        try:
            while True:
                time.sleep(interval)
                after = sample(session.admin)
                _show(session, _chosen(changes(before, after), sort, limit, internal=internal))
                before = after
                if once:
                    return
        except KeyboardInterrupt:
            return
    _draw(session, before, interval, sort, limit, internal=internal)


def _chosen(found: dict[str, Any], sort: str, limit: int, *, internal: bool) -> dict[str, Any]:
    """The rows that are shown, in their order."""
    of_topics, of_groups = _SORTS[sort]
    topics = [row for row in found["topics"] if internal or not row["topic"].startswith("__")]
    return {
        **found,
        "topics": _sorted(topics, of_topics, "topic")[:limit],
        "groups": _sorted(found["groups"], of_groups, "group")[:limit],
        "under_replicated": found["under_replicated"][:limit],
        "under_replicated_count": len(found["under_replicated"]),
    }


def _sorted(rows: Sequence[dict[str, Any]], by: str, name: str) -> list[dict[str, Any]]:
    if by == name:
        return sorted(rows, key=lambda row: str(row[name]))
    return sorted(rows, key=lambda row: (-(row[by] or 0), str(row[name])))


def _show(session: Session, found: dict[str, Any]) -> None:
    """Write a document, or tables without colours."""
    if session.output.format != "text":
        session.output.line(found, "")
        return
    click.echo(_summary(found))
    for name, rows in _tables(found).items():
        click.echo("")
        for line in aligned(rows, _COLUMNS[name]):
            click.echo(line)


def _tables(found: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The rows of the tables that are not empty, as people read them."""
    tables = {
        "topics": [_with_rates(row) for row in found["topics"]],
        "groups": [{**row, "trend": _trend(row["lag_per_second"])} for row in found["groups"]],
        "under_replicated": found["under_replicated"],
        "brokers": [_with_rates(row) for row in found["brokers"]],
    }
    return {name: rows for name, rows in tables.items() if rows}


def _with_rates(row: dict[str, Any]) -> dict[str, Any]:
    has_sizes = row["bytes"] is not None
    return {
        **row,
        "records/s": row["records_per_second"],
        "bytes/s": f"{size_text(row['bytes_per_second'])}/s" if has_sizes else None,
        "size": size_text(row["bytes"]) if has_sizes else None,
    }


def _trend(per_second: float) -> str:
    word = _TREND[(per_second > 0) - (per_second < 0) + 1]
    return word if word == "-" else f"{word} {abs(per_second):g}/s"


def _summary(found: dict[str, Any]) -> str:
    records = sum(row["records_per_second"] for row in found["brokers"])
    sizes = [row["bytes_per_second"] for row in found["brokers"]]
    parts = [f"brokers: {len(found['brokers'])}", f"{records:,.0f} records/s"]
    if None not in sizes:
        parts.append(f"{size_text(sum(sizes))}/s")
    parts.append(
        f"{found['under_replicated_count']} partitions under-replicated, {found['offline']} without a leader"
    )
    return f"{time.strftime('%H:%M:%S')}  {', '.join(parts)}, over {found['seconds']:g} s"


def _draw(
    session: Session, before: ClusterSample, interval: float, sort: str, limit: int, *, internal: bool
) -> None:
    """Draw until Ctrl-C or q; a cluster that does not answer is named, and asked again."""
    from rich.live import Live
    from rich.text import Text

    from kafkapy.commands.cluster_sample import changes, sample

    by_key = {name[0]: name for name in _SORTS}
    found: dict[str, Any] | None = None
    problem = ""
    with pressed_keys() as keys, Live(auto_refresh=False, screen=True) as live:
        try:
            while True:
                shown = None if found is None else _chosen(found, sort, limit, internal=internal)
                live.update(_view(shown, sort, problem) if shown or problem else Text("…"), refresh=True)
                key = keys.next(
                    interval if found is None else max(interval - (time.monotonic() - before.at), 0)
                )
                if key == "q":
                    return
                if key is not None:
                    sort = by_key.get(key, sort)
                    continue
                try:
                    after = sample(session.admin)
                    found, before, problem = changes(before, after), after, ""
                except UserError as error:
                    problem = str(error)
                    time.sleep(min(interval, 1.0))
        except KeyboardInterrupt:
            pass


def _view(found: dict[str, Any] | None, sort: str, problem: str) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    if found is not None:
        parts.append(Text(_summary(found), style="bold"))
        for name, rows in _tables(found).items():
            title = (
                f"{name.replace('_', '-')}, by {sort}"
                if name in ("topics", "groups")
                else name.replace("_", "-")
            )
            parts += [Text(title, style="dim"), table(rows, _COLUMNS[name])]
    if problem:
        parts.append(Text(problem, style="bold red"))
    parts.append(Text(_HELP, style="reverse"))
    return Group(*parts)
