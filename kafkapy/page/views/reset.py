"""Setting the offsets of a group: what would change is shown first, and that alone is done."""

from __future__ import annotations

import json
from typing import Any, Final

from kafkapy.commands.offset_moves import offset_moves, set_offsets
from kafkapy.commands.units import instant
from kafkapy.errors import UserError
from kafkapy.page.call import Answer, Call, whole
from kafkapy.page.cluster.groups import Listed
from kafkapy.page.rendering import query

_HOW: Final = {
    "to_earliest": "to the first record",
    "to_latest": "to the end",
    "to_offset": "to an offset",
    "to_time": "to a time",
    "shift_by": "by a number of records",
}
_FREE: Final = ("Empty", "Dead", "")
"""The states in which a group has no members."""
_MOST_SHOWN: Final = 500


def form(call: Call) -> Answer:
    group = _free(call, call.query.get("name", ""))
    return _form(call, group, {"topic": "", "how": "to_earliest", "value": ""})


def plan(call: Call) -> Answer:
    """The dry run."""
    group = _free(call, call.form.get("name", ""))
    fields = {name: call.form.get(name, "").strip() for name in ("topic", "how", "value")}
    try:
        rows = _moves(call, group, **fields)
    except UserError as error:
        return _form(call, group, fields, str(error))
    moved = [row for row in rows if row["before"] != row["after"]]
    return Answer(
        "reset_plan.html",
        {
            "title": f"Set offsets of {group.name}",
            "group": group,
            "rows": moved[:_MOST_SHOWN],
            "moved": len(moved),
            "same": len(rows) - len(moved),
            "moves": json.dumps(
                [[row["topic"], row["partition"], row["before"], row["after"]] for row in moved]
            ),
        },
    )


def do(call: Call) -> Answer:
    """Set the offsets of a dry run, if the group is still where it was."""
    group = _free(call, call.form.get("name", ""))
    moves = _read(call.form.get("moves", ""))
    now = call.sources.groups.committed_now(group)
    for place, (before, _) in moves.items():
        if now.get(place) != before:
            raise UserError(
                f"group {group.name} has moved in {place[0]}-{place[1]} since the dry run: make another one"
            )
    with call.sources.wire.admin() as admin:
        set_offsets(admin, group.name, group.type, {place: after for place, (_, after) in moves.items()})
    call.sources.groups.forget()
    return Answer(location="/group" + query({"name": group.name, "set": len(moves)}))


def _form(call: Call, group: Listed, fields: dict[str, str], problem: str = "") -> Answer:
    topics = sorted({place.topic for place in call.sources.groups.offsets(group).committed})
    values: dict[str, Any] = {
        "title": f"Set offsets of {group.name}",
        "group": group,
        "topics": topics,
        "fields": fields,
        "how": _HOW,
        "problem": problem,
    }
    return Answer("reset.html", values, 400 if problem else 200)


def _free(call: Call, name: str) -> Listed:
    call.sources.groups.forget()  # the state of now counts
    group = call.sources.groups.group(name)
    if group.state not in _FREE:
        raise UserError(f"group {name} is {group.state}: stop its members first, then set its offsets")
    return group


def _moves(call: Call, group: Listed, topic: str, how: str, value: str) -> list[dict[str, Any]]:
    number: int | None = None
    if how not in _HOW:
        raise UserError(f"expected one of {', '.join(_HOW)}")
    if how == "to_offset":
        if not value:
            raise UserError("give the offset")
        number = whole(value, "offset", 0)
    elif how == "shift_by":
        digits = value.removeprefix("-").removeprefix("+")
        number = whole(digits, "number of records", 0) * (-1 if value.startswith("-") else 1)
        if not number:
            raise UserError("give a number of records, such as -100 to go back by 100")
    elif how == "to_time":
        number = instant(value, "time")
    with call.sources.wire.admin() as admin:
        partitions = admin.partitions([topic]) if topic else None
        rows = offset_moves(admin, group.name, group.type, partitions, how, number)
    if not rows:
        raise UserError("the group has no offsets: choose a topic")
    return rows


def _read(text: str) -> dict[Any, tuple[int | None, int]]:
    try:
        found = {
            (str(topic), int(partition)): (None if before is None else int(before), int(after))
            for topic, partition, before, after in json.loads(text)
        }
    except (ValueError, TypeError, RecursionError):
        found = {}
    if not found:
        raise UserError("the form has no offsets: make a dry run first")
    return found
