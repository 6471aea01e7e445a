"""`kafkapy consume`: what kafka-console-consumer.sh does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kafkapy.commands import records
from kafkapy.commands.options import Session, connected, filtered
from kafkapy.commands.units import instant
from kafkapy.errors import UserError

if TYPE_CHECKING:
    from kafkapy.commands.record_filter import RecordFilter


@click.command()
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option(
    "--partition", "-p", "numbers", type=click.IntRange(min=0), multiple=True, help="Only this one."
)
@click.option("--from-beginning", "-b", is_flag=True, help="From the first record.")
@click.option("--offset", "-o", metavar="OFFSET", help="From there: a number, -N for the last N, earliest.")
@click.option("--since", metavar="TIME", help="From there: 2026-11-29T08:00, or 2h ago.")
@click.option("--max-messages", "-n", type=click.IntRange(min=1), help="End after so many records.")
@click.option("--exit", "-e", "ends", is_flag=True, help="End at the end that the partitions have now.")
@click.option("--group", "-g", help="As a member of this group, which commits what was shown.")
@click.option("--isolation-level", type=click.Choice(["read_uncommitted", "read_committed"]))
@click.option("--print-key", is_flag=True, help="Show the key, with a tab after it.")
@click.option("--print-headers", is_flag=True)
@click.option("--print-timestamp", is_flag=True)
@click.option("--print-partition", is_flag=True)
@click.option("--print-offset", is_flag=True)
@filtered
@connected
def consume(
    session: Session,
    topics: tuple[str, ...],
    numbers: tuple[int, ...],
    from_beginning: bool,
    offset: str | None,
    since: str | None,
    max_messages: int | None,
    ends: bool,
    group: str | None,
    isolation_level: str | None,
    choice: RecordFilter,
    **prints: bool,
) -> None:
    """Show records of topics (kafka-console-consumer.sh).

    It shows new records, until Ctrl-C, unless an option says where to begin and to end. With --format json,
    each record is one line with all there is to it.
    """
    if sum((from_beginning, offset is not None, since is not None)) > 1:
        raise UserError("--from-beginning, --offset and --since are given together: give one of them")
    if group is not None and (numbers or offset is not None or since is not None or ends):
        raise UserError(
            "a group has its own offsets: with --group, leave --partition, --offset and --exit out"
        )
    from kafkapy.commands.reading import Reader
    from kafkapy.commands.reading import ends as ends_of

    session.admin.topics(topics)
    overrides: dict[str, Any] = {} if isolation_level is None else {"isolation_level": isolation_level}
    if group is not None:
        reset = "earliest" if from_beginning else "latest"
        overrides |= {"group_id": group, "auto_offset_reset": reset}
    with Reader(session, **overrides) as reader:
        if group is not None:
            reader.subscribe(topics)
        else:
            begin = _begin(session, _partitions(session, topics, numbers), from_beginning, offset, since)
            reader.begin(begin)
            if ends:
                reader.end_at(ends_of(session.admin, begin))
        parts = {name.removeprefix("print_"): wanted for name, wanted in prints.items()}
        count = _show(session, reader, choice, parts, max_messages, commits=group is not None)
    session.output.note(f"records: {count}")


def _show(
    session: Session,
    reader: Any,
    choice: RecordFilter,
    parts: dict[str, bool],
    max_messages: int | None,
    *,
    commits: bool,
) -> int:
    """Show records until the end or Ctrl-C; returns how many there were.

    A group commits what it has passed over, too.
    """
    count = 0
    try:
        for found in reader.records():
            read = []
            for record in found:
                if count == max_messages:
                    break
                read.append(record)
                if choice.takes(record):
                    session.output.line(*records.decoded(record, parts, choice.decoder))
                    count += 1
            if commits and read:
                reader.commit(read)
            if count == max_messages:
                break
    except KeyboardInterrupt:
        pass
    return count


def _partitions(session: Session, topics: Sequence[str], numbers: Sequence[int]) -> list[Any]:
    partitions = session.admin.partitions(topics)
    if not numbers:
        return list(partitions)
    for topic in topics:
        known = {partition.partition for partition in partitions if partition.topic == topic}
        if missing := sorted(set(numbers) - known):
            raise UserError(f"{topic} has no partition {missing[0]}: it has {len(known)}")
    return [partition for partition in partitions if partition.partition in numbers]


def _begin(
    session: Session, partitions: list[Any], from_beginning: bool, offset: str | None, since: str | None
) -> dict[Any, int]:
    from kafkapy.commands import reading

    admin = session.admin
    if from_beginning or offset == "earliest":
        return reading.starts(admin, partitions)
    if since is not None:
        return reading.since(admin, partitions, instant(since, "--since"))
    if offset is None or offset == "latest":
        return reading.ends(admin, partitions)
    if not re.fullmatch(r"-?\d+", offset):
        raise UserError(f"--offset {offset}: expected a number, -N for the last N, earliest or latest")
    number = int(offset)
    if number < 0:
        return reading.last_records(admin, partitions, -number)
    return dict.fromkeys(partitions, number)
