"""Groups of all types, with their states and lag."""

from __future__ import annotations

from typing import Final

from kafkapy.page.call import Answer, Call
from kafkapy.page.cluster.topics import Place
from kafkapy.page.views.paging import paged
from kafkapy.protocol.special_timestamps import LATEST

_SIZE: Final = 50
_MOST_PARTITIONS: Final = 1000
_SECONDS: Final = 0.1

TYPES: Final = ("classic", "consumer", "share", "streams")


def view(call: Call) -> Answer:
    sources, name, type_ = call.sources, call.text("name"), call.text("type")
    shown = [
        group
        for group in sources.groups.listed().values()
        if name.lower() in group.name.lower() and type_ in ("", group.type)
    ]
    page = paged(shown, call.number("page", 1), _SIZE)
    committed = sources.groups.all_committed(_SECONDS)
    own = {group.name: (committed or {}).get(group.name, {}) for group in page.items}
    asked, names = dict[Place, None](), set[str]()
    for group_name, offsets in own.items():
        if len(asked) + len(offsets) <= _MOST_PARTITIONS:
            asked |= dict.fromkeys(offsets)
            names.add(group_name)
    ends = sources.topics.offsets(asked, LATEST)
    rows = [
        {
            "group": group,
            "topics": sorted({place.topic for place in own[group.name]}),
            "partitions": len(own[group.name]) if committed is not None else None,
            "lag": sum(
                max(ends[place] - offset, 0) for place, offset in own[group.name].items() if place in ends
            )
            if group.name in names and committed is not None
            else None,
        }
        for group in page.items
    ]
    return Answer(
        "groups.html" if call.text("part") == "" else "groups_part.html",
        {"title": "Groups", "page": page, "rows": rows, "name": name, "type": type_, "types": TYPES},
    )
