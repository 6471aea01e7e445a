"""`kafkapy groups`: what kafka-consumer-groups.sh and kafka-groups.sh do."""

from __future__ import annotations

from typing import Any, Final

import click

from kafkapy.commands.options import Session, confirm, connected, dry_run, yes
from kafkapy.commands.partitions import named
from kafkapy.commands.units import instant, milliseconds
from kafkapy.errors import UserError

_TYPES: Final = ("classic", "consumer", "share", "streams")
_OFFSETS: Final = ("group", "topic", "partition", "committed", "end", "lag", "client_id", "host")
_MEMBERS: Final = ("group", "member_id", "instance_id", "client_id", "host", "partitions")


@click.group()
def groups() -> None:
    """List, describe and delete groups, and reset their offsets (kafka-consumer-groups.sh)."""


@groups.command("list")
@click.option("--type", "type_", type=click.Choice(_TYPES), help="Only groups of this type.")
@click.option("--state", help="Only groups in this state, such as Stable or Empty.")
@connected
def list_(session: Session, type_: str | None, state: str | None) -> None:
    """List groups of all types (kafka-groups.sh)."""
    from kafkapy.commands.group_state import listed

    rows = [
        group
        for group in listed(session.admin).values()
        if type_ in (None, group["type"]) and (state is None or state.lower() == str(group["state"]).lower())
    ]
    session.output.rows(rows, ("group", "type", "state", "protocol"), empty="there are no groups.")


@groups.command()
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@click.option("--members", is_flag=True, help="Show members, with their partitions.")
@click.option("--state", is_flag=True, help="Show the groups' states.")
@connected
def describe(session: Session, names: tuple[str, ...], members: bool, state: bool) -> None:
    """Describe offsets and lag of groups, their members or states."""
    from kafkapy.commands.group_state import described, known, lag_rows

    types = known(session.admin, names)
    found = described(session.admin, types)
    offsets = lag_rows(session.admin, types, found)
    documents: list[dict[str, Any]] = [
        {
            "group": group.name,
            "type": group.type,
            "state": group.state,
            "assignor": group.assignor,
            "epoch": group.epoch,
            "members": [member.row() for member in group.members],
            "offsets": [row for row in offsets if row["group"] == group.name],
        }
        for group in found
    ]
    if session.output.format != "text":
        session.output.rows(documents, ())
    elif state:
        rows = [{**document, "members": len(document["members"])} for document in documents]
        session.output.rows(rows, ("group", "type", "state", "assignor", "epoch", "members"))
    elif members:
        rows = [{"group": group.name, **member.row()} for group in found for member in group.members]
        session.output.rows(rows, _MEMBERS, empty="the group has no members.")
    else:
        owners = {
            (group.name, partition.topic, partition.partition): member
            for group in found
            for member in group.members
            for partition in member.partitions
        }
        lines: list[dict[str, Any]] = []
        for row in offsets:
            owner = owners.get((row["group"], row["topic"], row["partition"]))
            lines.append({**row, "client_id": owner and owner.client_id, "host": owner and owner.host})
        session.output.rows(lines, _OFFSETS, empty="the group has committed no offsets.")


@groups.command()
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@dry_run
@yes
@connected
def delete(session: Session, names: tuple[str, ...], dry_run: bool, yes: bool) -> None:
    """Delete groups that have no members, with their offsets."""
    from kafka.protocol.admin import DeleteGroupsRequest

    from kafkapy.commands.connection.admin import Coordinator
    from kafkapy.commands.connection.failures import failure_text
    from kafkapy.commands.group_state import known

    known(session.admin, names)
    if dry_run:
        session.results(
            [{"group": name, "result": "would be deleted"} for name in names], ("group", "result")
        )
        return
    confirm(f"Delete {', '.join(names)} with all offsets?", sure=yes)
    rows = []
    for answer in session.admin.to_coordinators(
        names, Coordinator.GROUP, lambda own: DeleteGroupsRequest(groups_names=list(own))
    ):
        for result in answer.results:
            code = result.error_code
            row = {"group": result.group_id, "result": "failed" if code else "deleted"}
            rows.append({**row, "error": failure_text(code) if code else None})
    session.results(rows, ("group", "result"))


@groups.command("delete-offsets")
@click.argument("name", metavar="GROUP")
@click.option("--topic", "topics", metavar="TOPIC[:0,1]", multiple=True, required=True)
@dry_run
@yes
@connected
def delete_offsets(session: Session, name: str, topics: tuple[str, ...], dry_run: bool, yes: bool) -> None:
    """Delete offsets that a group has committed for topics.

    Those of a share group are deleted for whole topics.
    """
    from kafkapy.commands.group_state import committed, known

    type_ = known(session.admin, [name])[name]
    if type_ == "share" and (parts := [topic for topic in topics if ":" in topic]):
        raise UserError(f"--topic {parts[0]}: a share group's offsets are deleted for whole topics")
    if type_ == "share" and not dry_run:
        _delete_share_offsets(session, name, topics, yes)
        return
    partitions = named(session, topics)
    if dry_run:
        there = committed(session.admin, {name: type_}).get(name, {})
        rows = [
            {"topic": each.topic, "partition": each.partition, "offset": there[each]}
            for each in sorted(partitions)
            if each in there
        ]
        empty = "the group has committed no such offsets."
        session.output.rows(rows, ("topic", "partition", "offset"), empty=empty)
        return
    confirm(f"Delete the offsets of {name} for {', '.join(topics)}?", sure=yes)
    with session.admin.calls() as client:
        found = client.delete_group_offsets(name, partitions)
    session.results(
        [
            {"topic": each.topic, "partition": each.partition, **_outcome(error, "deleted")}
            for each, error in sorted(found.items())
        ],
        ("topic", "partition", "result"),
    )


@groups.command("reset-offsets")
@click.argument("name", metavar="GROUP")
@click.option("--topic", "topics", metavar="TOPIC[:0,1]", multiple=True, help="Only these partitions.")
@click.option("--all-topics", is_flag=True, help="All topics for which the group has offsets.")
@click.option("--to-earliest", is_flag=True, help="To the first record.")
@click.option("--to-latest", is_flag=True, help="To the end.")
@click.option("--to-current", is_flag=True, help="To where it is; writes offsets that would expire.")
@click.option("--to-offset", type=click.IntRange(min=0), metavar="OFFSET")
@click.option("--to-datetime", metavar="TIME", help="To the first record from then on: 2026-11-29T08:00.")
@click.option("--by-duration", metavar="DURATION", help="To the first record of the last 2h, 1d, …")
@click.option("--shift-by", type=int, metavar="N", help="By N records; back for a negative N.")
@dry_run
@click.option("--yes", "-y", "--execute", "yes", is_flag=True, help="Do not ask.")
@connected
def reset_offsets(
    session: Session,
    name: str,
    topics: tuple[str, ...],
    all_topics: bool,
    dry_run: bool,
    yes: bool,
    **to: Any,
) -> None:
    """Set the offsets of a group that has no members.

    What would change is shown first. Offsets outside a partition become its start or end.
    """
    from kafkapy.commands.group_state import listed
    from kafkapy.commands.offset_moves import offset_moves, set_offsets

    given = {key: value for key, value in to.items() if value not in (None, False)}
    if len(given) != 1:
        raise UserError("give one of --to-earliest, --to-latest, --to-offset, --to-datetime, --shift-by, …")
    if bool(topics) == all_topics:
        raise UserError("give --topic TOPIC, or --all-topics for those that the group has offsets for")
    group = listed(session.admin).get(name)
    if group is not None and group["state"] not in ("Empty", "Dead", None):
        raise UserError(f"group {name} is {group['state']}: stop its members first")
    type_ = "classic" if group is None else str(group["type"])
    partitions = named(session, topics) if topics else None
    how, value = given.popitem()
    if how in ("to_datetime", "by_duration"):
        option = f"--{how.replace('_', '-')}"
        if how == "by_duration":
            milliseconds(value, option)
        how, value = "to_time", instant(value, option)
    rows = offset_moves(session.admin, name, type_, partitions, how, value)
    session.output.rows(
        rows, ("group", "topic", "partition", "before", "after"), empty="there are no offsets."
    )
    if dry_run or not rows:
        return
    confirm(f"Set these {len(rows)} offsets?", sure=yes)
    offsets = {(row["topic"], row["partition"]): row["after"] for row in rows}
    set_offsets(session.admin, name, type_, offsets)
    session.output.note("done.")


def _delete_share_offsets(session: Session, name: str, topics: tuple[str, ...], yes: bool) -> None:
    from kafkapy.commands.share_offsets import delete_share_offsets

    confirm(f"Delete the offsets of {name} for {', '.join(topics)}?", sure=yes)
    session.results(delete_share_offsets(session.admin, name, topics), ("topic", "result"))


def _outcome(error: Any, done: str) -> dict[str, str | None]:
    """The result and the error of an item, from kafka-python's class of an error."""
    from kafkapy.commands.connection.failures import failure_text

    code = error.errno if error is not None else 0
    return {"result": "failed", "error": failure_text(code)} if code else {"result": done, "error": None}
