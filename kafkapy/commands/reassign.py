"""`kafkapy reassign`: what kafka-reassign-partitions.sh does.

A plan is the JSON file of kafka-reassign-partitions.sh:

    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2]}]}
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from kafkapy.commands.options import Session, confirm, connected, dry_run, yes
from kafkapy.commands.partitions import named
from kafkapy.commands.throttles import end_throttles, throttle
from kafkapy.commands.units import size
from kafkapy.errors import UserError

_COLUMNS = ("topic", "partition", "before", "after")
_STATE = ("topic", "partition", "replicas", "adding_replicas", "removing_replicas")
_plan_file = click.option(
    "--file", "-f", "path", type=click.Path(path_type=Path), required=True, help="A plan."
)


@click.group()
def reassign() -> None:
    """Move partitions to other brokers (kafka-reassign-partitions.sh)."""


@reassign.command("list")
@connected
def list_(session: Session) -> None:
    """List the reassignments that are going on."""
    rows = [
        {"topic": place.topic, "partition": place.partition, **state}
        for place, state in sorted(_ongoing(session).items())
    ]
    session.output.rows(rows, _STATE, empty="no reassignment is going on.")


@reassign.command()
@click.argument("partitions", metavar="TOPIC[:0,1]...", nargs=-1, required=True)
@click.option("--brokers", metavar="1,2,3", help="Only on these; else on all.")
@click.option("--replication-factor", "-r", type=click.IntRange(min=1), help="Else as it is.")
@connected
def plan(
    session: Session, partitions: tuple[str, ...], brokers: str | None, replication_factor: int | None
) -> None:
    """Print a plan that spreads partitions over brokers, for `kafkapy reassign execute`.

    Replicas stay where they are if the brokers may keep them.
    """
    existing = session.admin.broker_ids()
    ids = existing if brokers is None else _ids(brokers, existing)
    wanted = named(session, partitions)
    current = _replicas(session, sorted({each.topic for each in wanted}))
    load = dict.fromkeys(ids, 0)
    planned = []
    for place in wanted:
        before = current[place]
        factor = replication_factor or len(before)
        if factor > len(ids):
            raise UserError(f"a replication factor of {factor} needs {factor} brokers: there are {len(ids)}")
        kept = [broker for broker in before if broker in load][:factor]
        others = sorted(set(ids) - set(kept), key=lambda broker: (load[broker], broker))
        after = kept + others[: factor - len(kept)]
        for broker in after:
            load[broker] += 1
        planned.append({"topic": place.topic, "partition": place.partition, "replicas": after})
    document = {"version": 1, "partitions": planned}
    if session.output.format == "yaml":
        session.output.item(document)
    else:
        click.echo(json.dumps(document, indent=2))


@reassign.command()
@_plan_file
@click.option("--throttle", "rate", metavar="SIZE", help="Bytes a second and broker at most: 50MiB.")
@dry_run
@yes
@connected
def execute(session: Session, path: Path, rate: str | None, dry_run: bool, yes: bool) -> None:
    """Carry out a plan: say what changes, then let the brokers move the replicas.

    A throttle stays until `kafkapy reassign verify` finds that all is moved. Given again, it changes.
    """
    from kafkapy.commands.connection.failures import failure_text

    limit = None if rate is None else size(rate, "--throttle")
    if limit is not None and limit < 1:
        raise UserError(f"--throttle {rate}: expected at least one byte")
    moves = _read(path)
    places = dict.fromkeys(named(session, (f"{topic}:{number}" for topic, number in moves)))
    current = _replicas(session, sorted({each.topic for each in places}))
    existing = session.admin.broker_ids()
    rows: list[dict[str, Any]] = []
    for each in places:
        after = moves[each.topic, each.partition]
        if missing := [broker for broker in after if broker not in existing]:
            raise UserError(f"{path}: {each.topic}:{each.partition}: there is no broker {missing[0]}")
        if after != current[each]:
            row = {"topic": each.topic, "partition": each.partition, "before": current[each], "after": after}
            rows.append(row)
    if not rows or dry_run:
        session.output.rows(rows, _COLUMNS, empty="all replicas are where the plan has them.")
        return
    if session.output.format == "text":
        session.output.rows(rows, _COLUMNS)
    confirm(f"Move these {len(rows)} partitions?", sure=yes)
    wanted = {each: moves[each.topic, each.partition] for each in places}
    if limit is not None:
        # A move that is going on has made replicas that are still to be filled.
        adding = {each: state["adding_replicas"] for each, state in _ongoing(session).items()}
        full = {
            each: [broker for broker in current[each] if broker not in adding.get(each, ())]
            for each in places
        }
        throttle(session, {each: (full[each], after) for each, after in wanted.items()}, limit)
    with session.admin.calls() as client:
        answers = client.alter_partition_reassignments(wanted)
    for row in rows:
        place = next(
            each for each in places if (each.topic, each.partition) == (row["topic"], row["partition"])
        )
        error = answers.get(place)
        row |= {
            "result": "failed" if error else "moves",
            "error": failure_text(error.errno) if error else None,
        }
    session.results(rows, ("topic", "partition", "result"))


@reassign.command()
@_plan_file
@click.option("--preserve-throttles", is_flag=True, help="Leave throttles as they are.")
@connected
def verify(session: Session, path: Path, preserve_throttles: bool) -> None:
    """Show how far a plan is, and end the throttles when no partition moves any more."""
    moves = _read(path)
    places = dict.fromkeys(named(session, (f"{topic}:{number}" for topic, number in moves)))
    topics = sorted({each.topic for each in places})
    ongoing = _ongoing(session)
    current = _replicas(session, topics)
    rows = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "replicas": current[each],
            "planned": moves[each.topic, each.partition],
            **_progress(each in ongoing, current[each] == moves[each.topic, each.partition]),
        }
        for each in places
    ]
    if not ongoing and not preserve_throttles:
        end_throttles(session, topics)
        session.output.note("there are no throttles any more.")
    session.results(rows, ("topic", "partition", "replicas", "planned", "result"))


@reassign.command()
@click.argument("partitions", metavar="[TOPIC[:0,1]]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that are going on.")
@dry_run
@yes
@connected
def cancel(session: Session, partitions: tuple[str, ...], everything: bool, dry_run: bool, yes: bool) -> None:
    """Cancel reassignments: the replicas stay where they were."""
    from kafkapy.commands.connection.failures import failure_text

    if bool(partitions) == everything:
        raise UserError("name partitions, such as orders or orders:0,1, or give --all")
    ongoing = _ongoing(session)
    wanted = list(ongoing) if everything else [each for each in named(session, partitions) if each in ongoing]
    if not wanted:
        session.output.rows([], ("topic", "partition", "result"), empty="no reassignment is going on.")
        return
    if dry_run:
        rows = [
            {"topic": place.topic, "partition": place.partition, "result": "would be cancelled"}
            for place in sorted(wanted)
        ]
        session.output.rows(rows, ("topic", "partition", "result"))
        return
    confirm(f"Cancel the reassignment of {len(wanted)} partitions?", sure=yes)
    with session.admin.calls() as client:
        answers = client.alter_partition_reassignments(dict.fromkeys(wanted))
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "result": "failed" if error else "cancelled",
            "error": failure_text(error.errno) if error else None,
        }
        for place, error in sorted(answers.items())
    ]
    session.results(rows, ("topic", "partition", "result"))


def _progress(moves: bool, is_there: bool) -> dict[str, str | None]:
    if moves:
        return {"result": "moves", "error": None}
    if is_there:
        return {"result": "done", "error": None}
    return {"result": "failed", "error": "the replicas are others, and none is moved"}


def _ongoing(session: Session) -> dict[Any, dict[str, Any]]:
    with session.admin.calls() as client:
        found: dict[Any, dict[str, Any]] = client.list_partition_reassignments()
    return found


def _replicas(session: Session, topics: list[str]) -> dict[Any, list[int]]:
    from kafka.structs import TopicPartition

    return {
        TopicPartition(topic["name"], partition["partition_index"]): list(partition["replica_nodes"])
        for topic in session.admin.topics(topics)
        for partition in topic["partitions"]
    }


def _ids(text: str, existing: list[int]) -> list[int]:
    ids = []
    for word in text.split(","):
        if not word.strip().isdigit() or int(word) not in existing:
            known = ", ".join(map(str, existing))
            raise UserError(f"--brokers {text}: there is no broker {word}; there are {known}")
        ids.append(int(word))
    return ids


def _read(path: Path) -> dict[tuple[str, int], list[int]]:
    """The replicas of each partition of a plan; raises UserError for a mistake in it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: is no JSON: {error}") from None
    moves = dict(_moves(path, content))
    if not moves:
        raise UserError(f"{path}: has no partitions")
    return moves


def _moves(path: Path, content: Any) -> Iterator[tuple[tuple[str, int], list[int]]]:
    partitions = content.get("partitions") if isinstance(content, Mapping) else None
    for each in partitions if isinstance(partitions, list) else ():
        match each:
            case {"topic": str(topic), "partition": int(partition), "replicas": [int(), *_] as replicas}:
                if len(set(replicas)) != len(replicas):
                    raise UserError(f"{path}: {topic}:{partition} has a broker twice")
                yield (topic, partition), list(replicas)
            case _:
                raise UserError(f"{path}: expected topic, partition and replicas instead of {each}")
