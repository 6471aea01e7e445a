"""Divides the offsets to read into splits of about the same size.

A split consists of ranges of offsets, not of bytes: compaction and retention may move bytes before a split is
read, but not offsets. A range ends where a batch begins, which the offset indexes tell. Small partitions
share a split, and large ones are divided, so that all cores have work almost until the end.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.log.txn_index import AbortedTxn
from kafkapy.storage.offline.offline_log import OfflineLog

RANGE_BYTES = 8 << 20
"""The size of the ranges that make up splits."""
_MIN_SPLIT_BYTES = 32 << 20
"""The least size of a split, which takes about twice as long to read as its task takes to start.

A task takes Spark's Python worker 0.1 s before it reads: importlib drops its caches, and a full garbage
collection runs."""
_MAX_SPLIT_BYTES = 512 << 20
_SPLITS_PER_CORE = 2


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of one partition from `start` to `end`, exclusive; small, and can be pickled."""

    topic_partition: TopicPartition
    directory: str
    start: int
    end: int
    nbytes: int
    """About how many bytes of the log they take."""
    aborted: tuple[AbortedTxn, ...] = ()
    """The aborted transactions, whose records are left out."""


def ranges_of(
    log: OfflineLog,
    start: int,
    end: int,
    aborted: Sequence[AbortedTxn] = (),
    *,
    range_bytes: int = RANGE_BYTES,
) -> list[OffsetRange]:
    """Return the offsets from `start` to `end` in ranges of about `range_bytes`."""
    ranges: list[OffsetRange] = []
    topic_partition, path = log.directory.topic_partition, log.directory.path

    def close(at: int, nbytes: int) -> None:
        within = tuple(txn for txn in aborted if txn.last_offset >= begun and txn.first_offset < at)
        ranges.append(OffsetRange(topic_partition, path, begun, at, nbytes, within))

    begun, gathered = start, 0
    if start >= end:
        return ranges
    for segment in log.segments_from(start):
        if segment.base_offset >= end:
            break
        position = segment.lookup(start)[1] if segment.base_offset < start else 0
        stop = segment.lookup(end)[1] if segment.indexes.offset_index.last_offset >= end else segment.size
        while stop - position > range_bytes - gathered:
            place = segment.batch_near(position + range_bytes - gathered)
            if place is None or place.position <= position or not begun < place.base_offset < end:
                break
            gathered += place.position - position
            close(place.base_offset, gathered)
            begun, gathered, position = place.base_offset, 0, place.position
        gathered += max(stop - position, 0)
        if gathered > range_bytes:
            later = log.segments_from(segment.base_offset)[1:2]
            if later and begun < later[0].base_offset < end:
                close(later[0].base_offset, gathered)
                begun, gathered = later[0].base_offset, 0
    close(end, gathered)
    return ranges


def group(
    ranges: Iterable[OffsetRange], *, cores: int | None = None, at_least: int = 1
) -> list[list[OffsetRange]]:
    """Group the ranges, in order, into splits; neighbours in a partition are joined again.

    There are `at_least` so many splits, or one for each range if there are fewer ranges.
    """
    ranges = list(ranges)
    total = sum(each.nbytes for each in ranges)
    cores = cores or os.cpu_count() or 1
    target = min(max(total // (cores * _SPLITS_PER_CORE), _MIN_SPLIT_BYTES), _MAX_SPLIT_BYTES)
    if target == _MIN_SPLIT_BYTES:  # one for each core is enough, which has at most twice as much
        target = max(target, -(-total // cores))
    target = min(target, total // at_least)
    splits: list[list[OffsetRange]] = []
    room = 0
    for number, each in enumerate(ranges):
        lacking = at_least - len(splits) >= len(ranges) - number
        if room < each.nbytes // 2 or lacking or not splits:
            splits.append([])
            room = target
        last = splits[-1][-1] if splits[-1] else None
        if last is not None and (last.topic_partition, last.end) == (each.topic_partition, each.start):
            aborted = tuple(sorted({*last.aborted, *each.aborted}))
            nbytes = last.nbytes + each.nbytes
            splits[-1][-1] = replace(last, end=each.end, nbytes=nbytes, aborted=aborted)
        else:
            splits[-1].append(each)
        room -= each.nbytes
    return splits
