"""A topic: its partitions, and the groups that read it."""

from __future__ import annotations

from typing import Any, Final

from kafkapy.page.call import Answer, Call
from kafkapy.page.cluster.topics import Place
from kafkapy.page.views.paging import paged
from kafkapy.protocol.special_timestamps import EARLIEST, LATEST

_SIZE: Final = 100
_GROUPS_SECONDS: Final = 0.3
_MOST_GROUPS: Final = 50


def view(call: Call) -> Answer:
    topics = call.sources.topics
    topic = topics.topic(call.path["topic"])
    page = paged(topic.partitions, call.number("page", 1), _SIZE)
    places = [Place(topic.name, partition.number) for partition in page.items]
    first, last = topics.offsets(places, EARLIEST), topics.offsets(places, LATEST)
    sizes = topics.sizes(places)
    rows = []
    for partition, place in zip(page.items, places, strict=True):
        start, end = first.get(place), last.get(place)
        rows.append(
            {
                "partition": partition,
                "start": start,
                "end": end,
                "records": None if start is None or end is None else end - start,
                "size": None if sizes is None else sizes.get(place),
            }
        )
    return Answer(
        "topic.html" if call.text("part") == "" else "topic_part.html",
        {
            "title": topic.name,
            "topic": topic,
            "page": page,
            "rows": rows,
            "groups": _groups(call, topic.name),
        },
    )


def _groups(call: Call, name: str) -> list[dict[str, Any]] | None:
    """The groups that have offsets in the topic, with their lag; None if that is not known yet."""
    committed = call.sources.groups.all_committed(_GROUPS_SECONDS)
    if committed is None:
        return None
    own = {
        group: {place: offset for place, offset in offsets.items() if place.topic == name}
        for group, offsets in committed.items()
    }
    readers = [(group, offsets) for group, offsets in own.items() if offsets][:_MOST_GROUPS]
    # Of a topic with more partitions, the groups' own pages tell the lag.
    places = list({place: None for _, offsets in readers for place in offsets})[:1000]
    ends = call.sources.topics.offsets(places, LATEST)
    listed = call.sources.groups.listed()
    return [
        {
            "name": group,
            "state": listed[group].state if group in listed else "",
            "type": listed[group].type if group in listed else "",
            "lag": sum(max(ends[place] - offset, 0) for place, offset in offsets.items() if place in ends)
            if all(place in ends for place in offsets)
            else None,
        }
        for group, offsets in readers
    ]
