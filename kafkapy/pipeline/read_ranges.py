"""The offsets that a pipeline has read, in all incarnations of its checkpoint.

Its table must account for them. They are ranges [first, end) by partition, ascending and apart. What lies
between two ranges was skipped: it expired before it was read, or a reset skipped it. Each reset adds what the
incarnation that it ends has read. It writes the sum into the next one's `read`, within the one write that is
the reset (`state.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkapy.pipeline import checkpoint
from kafkapy.pipeline.state import State

Range = tuple[int, int]
Ranges = dict[int, tuple[Range, ...]]


def read_so_far(state: State) -> Ranges:
    """Up to the last batch that Spark has committed."""
    before = {} if state.incarnation is None else state.incarnation.read
    start, committed = checkpoint.initial_offsets(state), checkpoint.committed_offsets(state)
    return with_present(before, start or {}, committed or {})


def with_present(
    before: Mapping[int, Iterable[Range]], start: Mapping[int, int], committed: Mapping[int, int]
) -> Ranges:
    """The ranges `before`, and those from `start` to `committed`.

    A partition that was added since the start is read from 0.
    """
    return {
        partition: _joined(
            [*before.get(partition, ()), (start.get(partition, 0), committed.get(partition, 0))]
        )
        for partition in sorted({*before, *committed})
    }


def below(ranges: Ranges, ends: Mapping[int, int]) -> Ranges:
    """What of them lies before these offsets."""
    return {
        partition: _joined((first, min(end, ends[partition])) for first, end in of_partition)
        for partition, of_partition in ranges.items()
        if partition in ends
    }


def gaps(ranges: Iterable[Range], until: int) -> tuple[Range, ...]:
    """What lies between them, and between the last of them and `until`."""
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
