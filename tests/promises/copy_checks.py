"""What Kafka promises of copies (KIP-98, KIP-447).

They are written with the offsets of what was read.

The copies of a partition's records go to one partition, and a group commits the offsets of what it copied.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from tests.promises.history import (
    Anomaly,
    Check,
    CommitFetched,
    EndOffset,
    Finding,
    History,
    Partition,
    Pass,
    ReadTo,
    passes_of,
    place_name,
    sent_records,
)

Way = tuple[str, Partition]
"""A group, and the partition that it copies."""


def check_sources(history: History) -> Iterator[Finding]:
    """A copier is given only what every read_committed reader is given."""
    visible: dict[Partition, set[int]] = defaultdict(set)
    complete: dict[Partition, int] = {}
    for one in _complete(history):
        place = one.start.partition
        visible[place].update(read.offset for read in one.reads)
        complete[place] = max(one.end or 0, complete.get(place, 0))
    for event in sent_records(history).values():
        source = event.source
        if source is None or source.offset >= complete.get(source.partition, 0):
            continue
        if source.offset not in visible[source.partition]:
            where = f"{place_name(source.partition, source.offset)}, by {event.producer}"
            yield Finding(Anomaly.COPY_OF_NOTHING, where)


def check_copies(history: History) -> Iterator[Finding]:
    """Each record that its group went past has one copy, in order.

    Each copy has its offset committed.

    Commits are compared with passes that began after they were fetched, and reached the high watermark: the
    markers of one transaction are written to its partitions one after the other.
    """
    copies = _Copies(history)
    passes = {one.began: one for one in _complete(history)}
    fetched: dict[Way, int] = {}
    high: dict[Partition, int] = {}
    copied: dict[Way, int] = {}
    """The end of the copies that readers had read before."""
    open_passes: dict[tuple[str, Partition], Pass] = {}
    for time, event in enumerate(history):
        if isinstance(event, EndOffset):
            high[event.partition] = max(event.offset, high.get(event.partition, 0))
        elif isinstance(event, CommitFetched):
            way = (event.group, event.partition)
            fetched[way] = event.offset
            if event.offset < copied.get(way, -1):
                where = f"{event.group} at {event.offset} of {event.partition}, copied up to {copied[way]}"
                yield Finding(Anomaly.COPY_WITHOUT_OFFSET, where)
        elif isinstance(event, ReadTo) and (event.reader, event.partition) in open_passes:
            for way, shown in copies.in_pass(open_passes.pop((event.reader, event.partition))).items():
                copied[way] = max(copied.get(way, 0), max(shown, default=-1) + 1)
        elif time in passes:
            one = open_passes[event.reader, event.partition] = passes[time]  # type: ignore[union-attr]
            for way, shown in copies.in_pass(one).items():
                whole = (one.end or 0) >= high.get(one.start.partition, 0)
                past = max(fetched.get(way, 0) if whole else 0, max(shown, default=-1) + 1)
                expected = [offset for offset in copies.records.get(way[1], ()) if offset < past]
                yield from _compare(way, shown, expected)


class _Copies:
    """Which partitions are copied where, and what of them passes over the targets show."""

    def __init__(self, history: History) -> None:
        self._sources = {
            record: event.source for record, event in sent_records(history).items() if event.source
        }
        self._ways: dict[Partition, set[Way]] = defaultdict(set)
        """By the target."""
        for event in sent_records(history).values():
            if event.source:
                self._ways[event.partition].add((event.source.group, event.source.partition))
        self.records: dict[Partition, list[int]] = {}
        """The offsets of the committed records of the partitions, as the last complete pass has them."""
        for one in _complete(history):
            self.records[one.start.partition] = sorted({read.offset for read in one.reads})

    def in_pass(self, one: Pass) -> dict[Way, list[int]]:
        """The offsets of the records whose copies the pass shows, in its order."""
        shown: dict[Way, list[int]] = {way: [] for way in self._ways[one.start.partition]}
        for read in one.reads:
            if source := self._sources.get((read.producer, read.number)):
                shown.setdefault((source.group, source.partition), []).append(source.offset)
        return shown


def _compare(way: Way, shown: list[int], expected: list[int]) -> Iterator[Finding]:
    group, partition = way
    name = f"{partition[0]}-{partition[1]}"
    for offset, again in itertools.groupby(sorted(shown)):
        if (times := len(list(again))) > 1:
            yield Finding(Anomaly.DOUBLED_COPY, f"{name}@{offset}, {times} times, by {group}")
    for offset in sorted(set(expected) - set(shown)):
        yield Finding(Anomaly.LOST_COPY, f"{name}@{offset}, by {group}")
    for before, after in itertools.pairwise(dict.fromkeys(shown)):
        if after < before:
            yield Finding(Anomaly.COPIES_REORDERED, f"{name}@{after} after {before}, by {group}")


def _complete(history: History) -> list[Pass]:
    """The passes of read_committed readers from the start to the end."""
    return [
        one
        for one in passes_of(history)
        if one.start.committed and one.start.offset == 0 and one.end is not None
    ]


COPY_CHECKS: Final[tuple[Check, ...]] = (check_sources, check_copies)
