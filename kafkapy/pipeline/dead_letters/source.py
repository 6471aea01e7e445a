"""The places of the records that became dead letters."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kafkapy.pipeline.dead_letters.dead_letters import SOURCE, TOPIC_ID

_SOURCE: Final = re.compile(r"(.+)-(\d+)-(\d+)")

Headers = list[tuple[str, bytes | None]]


class Source(NamedTuple):
    """The place of a record that became a dead letter.

    `topic_id` is None if it is not known.
    """

    topic: str
    partition: int
    offset: int
    topic_id: str | None = None

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Source | None:
        match = _SOURCE.fullmatch(text)
        return None if match is None else cls(match[1], int(match[2]), int(match[3]))

    @classmethod
    def told(cls, headers: Mapping[str, str]) -> Source | None:
        """The source in the headers of a dead letter, or of a record that was replayed from one."""
        place = cls.parse(headers.get(SOURCE, ""))
        return None if place is None else place._replace(topic_id=headers.get(TOPIC_ID))

    @property
    def headers(self) -> Headers:
        """The headers that `told` reads."""
        own: Headers = [(SOURCE, str(self).encode())]
        return own if self.topic_id is None else [*own, (TOPIC_ID, self.topic_id.encode())]


class Partition(NamedTuple):
    """A partition of a topic, which may have been deleted since.

    `topic_id` is None if it is not known.
    """

    topic: str
    partition: int
    topic_id: str | None


class SourceSet:
    """Sources, as ranges of offsets by partition: a hundred thousand take some 2 MB."""

    def __init__(self) -> None:
        # The first and the last offset of each range, ascending
        self._ranges: dict[Partition, tuple[array[int], array[int]]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, source: Source) -> bool:
        topic, partition, offset, topic_id = source
        firsts, lasts = self._ranges.get(Partition(topic, partition, topic_id), _NONE)
        at = bisect_right(firsts, offset) - 1
        return at >= 0 and offset <= lasts[at]

    def add(self, source: Source) -> None:
        topic, partition, offset, topic_id = source
        place = Partition(topic, partition, topic_id)
        firsts, lasts = self._ranges.get(place, _NONE)
        if lasts and offset > lasts[-1] + 1:  # as most do that come
            firsts.append(offset)
            lasts.append(offset)
            self._size += 1
        else:
            self.add_range(place, offset, offset)

    def add_range(self, place: Partition, first: int, last: int) -> None:
        """Adds the sources at these offsets, both included."""
        firsts, lasts = self._ranges.setdefault(place, (array("q"), array("q")))
        low = bisect_right(firsts, first)
        if low and lasts[low - 1] >= first - 1:  # the range before touches this one
            low -= 1
        high = bisect_right(firsts, last + 1)
        before = sum(lasts[at] - firsts[at] + 1 for at in range(low, high))
        if low < high:
            first, last = min(first, firsts[low]), max(last, lasts[high - 1])
        firsts[low:high] = array("q", [first])
        lasts[low:high] = array("q", [last])
        self._size += last - first + 1 - before

    def ranges(self) -> Iterator[tuple[Partition, Iterator[tuple[int, int]]]]:
        """The first and the last offset of each range, by partition."""
        for place in sorted(self._ranges, key=lambda one: (one.topic_id or "", one.topic, one.partition)):
            firsts, lasts = self._ranges[place]
            yield place, zip(firsts, lasts, strict=True)


_NONE: Final = (array("q"), array("q"))
