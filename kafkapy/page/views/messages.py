"""The messages of a topic: by offset, by time, searched, as they come, or one alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from kafkapy.commands.record_filter import RecordFilter
from kafkapy.commands.units import instant
from kafkapy.errors import UserError
from kafkapy.page.call import MOST_NUMBER, Answer, Call, whole
from kafkapy.page.cluster.records import Found, Match, Reader, Records
from kafkapy.page.cluster.topics import Place, Topic
from kafkapy.page.shown import AUTO, KINDS, Shown, shown
from kafkapy.protocol.special_timestamps import EARLIEST, LATEST

MOST_SHOWN: Final = 500

_SHOWN: Final = 50
_SECONDS: Final = 3.0
"""A search ends after so long, and can be continued."""
_MOST_PARTITIONS: Final = 200
_BEHIND: Final = 1000
"""A page is taken forward if so many records of a partition have come since the last look at it."""
_MOST_CHARS: Final = 1024 * 1024
"""Of all messages of a view: browsers and this page have to hold them."""
_MOST_NAME: Final = 200
_MOST_HEADERS: Final = 100
_MOST_CONDITIONS: Final = 1000
"""Characters."""
_FROM: Final = ("newest", "oldest", "offset", "time")
_POSITION: Final = re.compile(r"(\d{1,7}):(\d{1,19})")


@dataclass(frozen=True)
class Message:
    """A record as it is shown."""

    place: Place
    offset: int
    timestamp: int
    key: Shown
    value: Shown
    headers: list[tuple[str, Shown]]
    more_headers: int
    marker: str | None


def view(call: Call) -> Answer:
    topic = call.sources.topics.topic(call.path["topic"])
    asked = _Asked.of(call, topic)
    first = call.sources.topics.offsets(asked.places, EARLIEST)
    last = call.sources.topics.offsets(asked.places, LATEST)
    reader, match = (
        Reader(call.sources.wire, call.sources.topics, committed=asked.committed),
        asked.match(call),
    )
    if asked.is_back:
        begin = {place: min(asked.positions.get(place, last[place]), last[place]) for place in last}
        read = reader.back(begin, first, asked.limit, _SECONDS, match)
    else:
        begin = _begin(call, asked, first, last)
        read = reader.forth(begin, last, asked.limit, _SECONDS, match)
    return Answer(
        "messages.html",
        {
            "title": f"Messages of {topic.name}",
            "topic": topic,
            "asked": asked,
            "messages": _shown(call, asked, read),
            "read": read,
            "further": {**call.query, "from": asked.begin, "pos": _cursor(read.positions)},
            "live": {**call.query, "pos": _cursor(last)},
            "kinds": KINDS,
            "begins": _FROM,
            "left_out": max(len(topic.partitions) - _MOST_PARTITIONS, 0) if asked.partition is None else 0,
        },
    )


def new(call: Call) -> Answer:
    """The messages since the last look: a piece of a page, and the position for the next look."""
    topic = call.sources.topics.topic(call.path["topic"])
    asked = _Asked.of(call, topic)
    last = call.sources.topics.offsets(asked.places, LATEST)
    positions = {place: min(asked.positions.get(place, end), end) for place, end in last.items()}
    skipped = 0
    for place, end in last.items():
        behind = end - positions[place] - _BEHIND
        if behind > 0:
            positions[place] += behind
            skipped += behind
    reader = Reader(call.sources.wire, call.sources.topics, committed=asked.committed)
    read = reader.forth(positions, last, MOST_SHOWN, _SECONDS, asked.match(call))
    messages = _shown(call, asked, read)[::-1]
    return Answer(
        "messages_rows.html",
        {"topic": topic, "asked": asked, "messages": messages},
        headers={"x-position": _cursor(read.positions), "x-skipped": str(skipped)},
    )


def one(call: Call) -> Answer:
    topic = call.sources.topics.topic(call.path["topic"])
    found = record(call, topic, int(call.path["partition"]), int(call.path["offset"]))
    key_kind, value_kind = _kind(call, "keys"), _kind(call, "values")
    return Answer(
        "message.html",
        {
            "title": f"Message {found.place.topic}-{found.place.partition} at {found.offset}",
            "topic": topic,
            "message": _message(call, found, key_kind, value_kind),
            "kinds": KINDS,
            "key_kind": key_kind,
            "value_kind": value_kind,
        },
    )


def record(call: Call, topic: Topic, partition: int, offset: int) -> Found:
    """One record; raises UserError if there is none at this offset."""
    place = _place(topic, partition)
    if offset >= MOST_NUMBER:
        raise UserError(f"{topic.name}-{partition} has no record at offset {offset}: it is too large")
    read = Reader(call.sources.wire, call.sources.topics).forth(
        {place: offset}, {place: offset + 1}, 1, _SECONDS
    )
    if not read.found:
        why = f": {read.problems[0]}" if read.problems else ": it may be compacted or deleted"
        raise UserError(f"{topic.name}-{partition} has no record at offset {offset}{why}")
    return read.found[0]


@dataclass(frozen=True)
class _Asked:
    """What a view of messages asks for."""

    places: list[Place]
    partition: int | None
    begin: str
    at: str
    limit: int
    positions: Mapping[Place, int]
    key: str
    search: str
    where: list[str]
    """Conditions, all of which hold."""
    keys: str
    values: str
    committed: bool

    @classmethod
    def of(cls, call: Call, topic: Topic) -> _Asked:
        partition = None if call.text("partition") == "" else call.number("partition", 0)
        begin = call.text("from") or "newest"
        if begin not in _FROM:
            raise UserError(f"from: expected {', '.join(_FROM)}")
        places = topic.places[:_MOST_PARTITIONS] if partition is None else [_place(topic, partition)]
        return cls(
            places=places,
            partition=partition,
            begin=begin,
            at=call.text("at"),
            limit=max(call.number("limit", _SHOWN, MOST_SHOWN), 1),
            positions=_positions(call.text("pos"), topic),
            key=call.query.get("key", ""),
            search=call.query.get("search", ""),
            where=_conditions(call.text("where")),
            keys=_kind(call, "keys"),
            values=_kind(call, "values"),
            committed=call.text("committed") == "1",
        )

    @property
    def is_back(self) -> bool:
        return self.begin == "newest"

    def match(self, call: Call) -> Match | None:
        """What records must be; None if all are asked for."""
        search = self.search.encode().lower()
        choice = None
        if self.key or self.where:
            choice = RecordFilter(self.key or None, self.where, call.sources.decoder)
        if choice is None and not search:
            return None

        def matches(found: Found) -> bool:
            if search and not any(
                search in part.lower()
                for part in (found.key, found.value, *(value for _, value in found.headers))
                if part is not None
            ):
                return False
            return choice is None or (found.marker is None and choice.takes(found))

        return matches


def _begin(
    call: Call, asked: _Asked, first: Mapping[Place, int], last: Mapping[Place, int]
) -> dict[Place, int]:
    """Where a reading forth begins."""
    if asked.positions:
        begin: Mapping[Place, int] = {**first, **asked.positions}
    elif asked.begin == "offset":
        begin = dict.fromkeys(first, whole(asked.at, "offset", 0))
    elif asked.begin == "time":
        if not asked.at:
            raise UserError("time: give one such as 2026-11-29T08:00, or 2h for two hours ago")
        times = call.sources.topics.offsets(asked.places, instant(asked.at, "time"))
        begin = {place: times.get(place, last.get(place, 0)) for place in first}
    else:
        begin = first
    return {place: min(max(begin[place], first[place]), last[place]) for place in first if place in last}


def _shown(call: Call, asked: _Asked, read: Records) -> list[Message]:
    most = _MOST_CHARS // max(len(read.found), 1)
    return [_message(call, found, asked.keys, asked.values, most) for found in read.found]


def _message(call: Call, found: Found, key_kind: str, value_kind: str, most: int = _MOST_CHARS) -> Message:
    """A record as it is shown; of its key, value and headers each at most so many characters."""
    decoder = call.sources.decoder

    def within(data: bytes | None, kind: str, most: int) -> Shown:
        return _within(shown(data, decoder, kind), most)

    headers = found.headers[:_MOST_HEADERS]
    return Message(
        found.place,
        found.offset,
        found.timestamp,
        within(found.key, key_kind, most),
        within(found.value, value_kind, most),
        [(_cut(name), within(value, AUTO, _MOST_CHARS // _MOST_HEADERS)) for name, value in headers],
        len(found.headers) - len(headers),
        found.marker,
    )


def _cut(name: str) -> str:
    return name if len(name) <= _MOST_NAME else f"{name[:_MOST_NAME]}…"


def _within(one: Shown, most: int) -> Shown:
    return one if len(one.text) <= most else replace(one, text=one.text[:most], is_cut=True)


def _conditions(text: str) -> list[str]:
    """One in each line."""
    if len(text) > _MOST_CONDITIONS:
        raise UserError(f"the conditions have more than {_MOST_CONDITIONS:,} characters")
    return [line.strip() for line in text.splitlines() if line.strip()]


def _kind(call: Call, name: str) -> str:
    kind = call.text(name) or AUTO
    if kind not in KINDS:
        raise UserError(f"{name}: expected {', '.join(KINDS)}")
    return kind


def _place(topic: Topic, partition: int) -> Place:
    if partition >= len(topic.partitions):
        raise UserError(f"{topic.name} has no partition {partition}: it has {len(topic.partitions)}")
    return Place(topic.name, partition)


def _cursor(positions: Mapping[Place, int]) -> str:
    return ",".join(f"{place.partition}:{offset}" for place, offset in sorted(positions.items()))


def _positions(text: str, topic: Topic) -> dict[Place, int]:
    found = {}
    for each in text.split(",") if text else ():
        pair = _POSITION.fullmatch(each)
        if pair is None:
            raise UserError("pos: expected partitions with offsets, such as 0:17,1:4")
        found[_place(topic, int(pair[1]))] = int(pair[2])
    return found
