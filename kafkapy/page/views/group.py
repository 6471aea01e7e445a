"""A group: its members, its lag by partition and over time."""

from __future__ import annotations

from typing import Final

from kafkapy.commands.group_state import Member
from kafkapy.page.call import Answer, Call
from kafkapy.page.cluster.groups import SHARE
from kafkapy.page.cluster.topics import Place
from kafkapy.page.plot import line
from kafkapy.page.views.paging import paged

_SIZE: Final = 100
_MOST_SUMMED: Final = 1000
_MOST_MEMBERS: Final = 200


def view(call: Call) -> Answer:
    groups = call.sources.groups
    group = groups.group(call.query.get("name", ""))
    points = call.sources.history.points(group.name)
    offsets = groups.offsets(group)
    described = groups.described(group)
    members = [] if described is None else described.members
    owners: dict[tuple[str, int], list[Member]] = {}
    for member in members:
        for place in member.partitions:
            owners.setdefault((place.topic, place.partition), []).append(member)
    places = sorted({*offsets.committed, *(Place(*place) for place in owners)})
    topic = call.text("topic")
    page = paged([place for place in places if topic in ("", place.topic)], call.number("page", 1), _SIZE)
    positions = groups.positions(offsets, page.items)
    if len(places) <= _SIZE and len(positions) == len(places):
        total: int | None = sum(position.lag or 0 for position in positions)
    elif len(places) <= _MOST_SUMMED:
        total = sum(position.lag or 0 for position in groups.positions(offsets, places))
    else:
        total = round(points[-1][1]) if points else None
    return Answer(
        "group.html" if call.text("part") == "" else "group_part.html",
        {
            "title": group.name or "(empty name)",
            "group": group,
            "described": described,
            "is_share": group.type == SHARE,
            "members": members[:_MOST_MEMBERS],
            "member_count": len(members),
            "page": page,
            "positions": positions,
            "owners": owners,
            "total": total,
            "topics": sorted({place.topic for place in places}),
            "topic": topic,
            "plot": line(points),
        },
    )
