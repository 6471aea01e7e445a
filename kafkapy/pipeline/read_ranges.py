"""The offsets that a pipeline has read, in all incarnations of its checkpoint.

The table must account for them. They are ranges [first, end) for each partition, ascending and disjoint. The
offsets between two ranges were skipped: they expired before they were read, or a reset skipped them. A reset
adds the offsets that the ending incarnation has read, and stores the sum in the `read` of the next one. That
is part of the single write that makes the reset (`state.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkapy.pipeline import checkpoint
from kafkapy.pipeline.state import State

Range = tuple[int, int]
Ranges = dict[int, tuple[Range, ...]]


def read_so_far(state: State, *, from_earliest: bool) -> Ranges:
    """The ranges of each partition up to the last batch that Spark has committed.

    A damaged checkpoint may not tell where it started. `from_earliest` means that the definition does.
    """
    before = {} if state.incarnation is None else state.incarnation.read
    start, position = checkpoint.start(state), checkpoint.position(state) or {}
    if start is None:
        start = {} if from_earliest else position
    found = with_present(before, start, position)
    return {partition: ranges for partition, ranges in found.items() if ranges}


def with_present(
    before: Mapping[int, Iterable[Range]], start: Mapping[int, int], committed: Mapping[int, int]
) -> Ranges:
    """The ranges `before` with those from `start` to `committed` added.

    A partition that was added after the start is read from 0.
    """
    return {
        partition: _joined(
            [*before.get(partition, ()), (start.get(partition, 0), committed.get(partition, 0))]
        )
        for partition in sorted({*before, *committed})
    }


def below(ranges: Ranges, ends: Mapping[int, int]) -> Ranges:
    """The parts of `ranges` below the offset `ends` of each partition."""
    return {
        partition: _joined((first, min(end, ends[partition])) for first, end in of_partition)
        for partition, of_partition in ranges.items()
        if partition in ends
    }


def gaps(ranges: Iterable[Range], until: int) -> tuple[Range, ...]:
    """The ranges between them, and the one from the last of them to `until`."""
    found: list[Range] = []
    behind: int | None = None
    for first, end in [*ranges, (until, until)]:
        if behind is not None and behind < min(first, until):
            found.append((behind, min(first, until)))
        behind = end
    return tuple(found)


def _joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    found: list[Range] = []
    for first, end in sorted(one for one in ranges if one[0] < one[1]):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((first, end))
    return tuple(found)
