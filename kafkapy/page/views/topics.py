"""Topics, with their partitions, sizes, and the lag of the groups that read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kafkapy.errors import UserError
from kafkapy.page.call import Answer, Call
from kafkapy.page.cluster.groups import Committed
from kafkapy.page.cluster.topics import Place, Topic
from kafkapy.page.views.paging import paged
from kafkapy.protocol.special_timestamps import EARLIEST, LATEST

_SIZE: Final = 50
_MOST_PARTITIONS: Final = 1000
"""The partitions of a view whose offsets are asked for; topics beyond show none."""
_GROUPS_SECONDS: Final = 0.1
"""A view waits so long for what groups have read; else it is filled in when the view is refreshed."""
_MOST_GROUPS: Final = 5


@dataclass
class Row:
    """A topic of the list; what is not known is None."""

    topic: Topic
    records: int | None = None
    size: int | None = None
    groups: list[tuple[str, int | None]] = field(default_factory=list)
    further_groups: int = 0


def view(call: Call) -> Answer:
    sources, name = call.sources, call.text("name")
    metadata = sources.topics.metadata()
    internal = call.text("internal") == "1"
    shown = [
        topic
        for topic in metadata.topics.values()
        if name.lower() in topic.name.lower() and (internal or not topic.is_internal)
    ]
    page = paged(shown, call.number("page", 1), _SIZE)
    rows = [Row(topic) for topic in page.items]
    problem, committed = None, None
    try:
        committed = sources.groups.all_committed(_GROUPS_SECONDS)
        _fill(call, rows, committed or {})
    except UserError as error:
        problem = str(error)
    return Answer(
        "topics.html" if call.text("part") == "" else "topics_part.html",
        {
            "title": "Topics",
            "page": page,
            "rows": rows,
            "name": name,
            "internal": internal,
            "metadata": metadata,
            "groups_known": committed is not None,
            "problem": problem,
        },
    )


def _fill(call: Call, rows: list[Row], committed: Committed) -> None:
    """Set what is known of the rows; raises UserError."""
    topics, places = call.sources.topics, list[Place]()
    asked: list[Row] = []
    for row in rows:
        if len(places) + len(row.topic.partitions) <= _MOST_PARTITIONS:
            places += row.topic.places
            asked.append(row)
    first, last = topics.offsets(places, EARLIEST), topics.offsets(places, LATEST)
    sizes = topics.sizes(places)
    readers = _readers(committed, {row.topic.name for row in rows})
    for row in rows:
        own = row.topic.places
        lags = sorted(readers.get(row.topic.name, {}).items(), key=lambda item: item[0])
        row.further_groups = max(len(lags) - _MOST_GROUPS, 0)
        is_asked = row in asked
        row.groups = [
            (group, _lag(offsets, last) if is_asked else None) for group, offsets in lags[:_MOST_GROUPS]
        ]
        if is_asked:
            row.records = sum(last[place] - first.get(place, 0) for place in own if place in last)
            row.size = None if sizes is None else sum(sizes.get(place, 0) for place in own)


def _readers(committed: Committed, topics: set[str]) -> dict[str, dict[str, dict[Place, int]]]:
    found: dict[str, dict[str, dict[Place, int]]] = {}
    for group, offsets in committed.items():
        for place, offset in offsets.items():
            if place.topic in topics:
                found.setdefault(place.topic, {}).setdefault(group, {})[place] = offset
    return found


def _lag(offsets: dict[Place, int], last: dict[Place, int]) -> int:
    return sum(max(last[place] - offset, 0) for place, offset in offsets.items() if place in last)
