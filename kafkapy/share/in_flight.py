"""The records in flight of a share partition, as runs of offsets with the same state.

The runs are in order and do not overlap. Between them there may be offsets that have no records: compaction
removed these. A run belongs to a batch: the offsets that were acquired together for the first time. Records
of different batches are never delivered as one range, so that a client finds the boundaries that it knows. A
run is split where a part of it changes, and is joined again with a neighbour of its batch that is alike.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum


class RecordState(IntEnum):
    """The states of a record, with their numbers in `__share_group_state`.

                acquired                accepted
    AVAILABLE ──────────► ACQUIRED ────────────────► ACKNOWLEDGED
        ▲                   │   │    rejected
        └───────────────────┘   └──────────────────► ARCHIVED
         released, lock over       delivered too often
    """

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    is_terminal: bool
    """Whether the record is never delivered again."""

    def __init__(self, number: int) -> None:
        self.is_terminal = number not in (0, 1)


@dataclass(frozen=True, slots=True)
class Batch:
    """The offsets that were acquired together for the first time."""

    first: int
    last: int

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1


class Change:
    """A change that counts when it is stored; until then its records are blocked."""


@dataclass(slots=True, eq=False)
class Run:
    """Offsets from `first` to `last` with the same state."""

    first: int
    last: int
    batch: Batch
    state: RecordState
    delivery_count: int
    member_id: str = ""
    deadline: float = 0.0
    """When the lock of acquired records is over, in seconds of a monotonic clock."""
    change: Change | None = None
    """The change that is being stored."""
    next_state: RecordState = RecordState.AVAILABLE
    """The state after this change."""

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1

    @property
    def is_available(self) -> bool:
        """Whether the records may be acquired."""
        return self.state is RecordState.AVAILABLE

    @property
    def is_settled(self) -> bool:
        """Whether the records are, or are about to be, in a terminal state."""
        return (self.state if self.change is None else self.next_state).is_terminal

    def is_like(self, other: Run) -> bool:
        """Whether two runs differ in their offsets only."""
        return (
            self.state is other.state
            and self.batch is other.batch
            and self.delivery_count == other.delivery_count
            and self.member_id == other.member_id
            and self.deadline == other.deadline
            and self.change is other.change
            and self.next_state is other.next_state
        )


class InFlight:
    """The runs, in order."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._runs: list[Run] = []

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def first(self) -> Run | None:
        """The first run."""
        return self._runs[0] if self._runs else None

    @property
    def last(self) -> Run | None:
        """The last run."""
        return self._runs[-1] if self._runs else None

    @property
    def batches(self) -> int:
        """How many batches the runs belong to."""
        count, last = 0, None
        for run in self._runs:
            if run.batch is not last:
                count, last = count + 1, run.batch
        return count

    def between(self, first: int, last: int) -> list[Run]:
        """The runs that have offsets from `first` to `last`, which may also have others."""
        start, stop = self._span(first, last)
        return self._runs[start:stop]

    def cut(self, first: int, last: int) -> list[Run]:
        """The runs with offsets from `first` to `last`, split so that they have no others."""
        start = self._split(first)
        return self._runs[start : self._split(last + 1)]

    def add(self, run: Run) -> None:
        """Add a run after all others."""
        assert not self._runs or self._runs[-1].last < run.first, "runs are added in order"
        self._firsts.append(run.first)
        self._runs.append(run)

    def drop_below(self, offset: int) -> None:
        """Remove all offsets below `offset`."""
        self._drop(self._split(offset))

    def drop_terminal(self) -> int | None:
        """Remove the first runs, as far as they are terminal; return the last offset of them."""
        count, last = 0, None
        for run in self._runs:
            if not run.state.is_terminal:
                break
            count, last = count + 1, run.last
        self._drop(count)
        return last

    def _drop(self, count: int) -> None:
        del self._firsts[:count]
        del self._runs[:count]

    def join(self, first: int, last: int) -> None:
        """Join runs that are alike, among those from `first` to `last` and their neighbours."""
        start, stop = self._span(first, last)
        index = max(start - 1, 0)
        end = min(stop + 1, len(self._runs))
        joined: list[Run] = []
        for run in self._runs[index:end]:
            if joined and joined[-1].last + 1 == run.first and joined[-1].is_like(run):
                joined[-1].last = run.last
            else:
                joined.append(run)
        self._runs[index:end] = joined
        self._firsts[index:end] = [run.first for run in joined]

    def _span(self, first: int, last: int) -> tuple[int, int]:
        start = max(bisect_right(self._firsts, first) - 1, 0)
        if start < len(self._runs) and self._runs[start].last < first:
            start += 1
        return start, max(bisect_right(self._firsts, last), start)

    def _split(self, offset: int) -> int:
        """Let a run begin at `offset`, if it is within one; return the index of the next run."""
        index = bisect_left(self._firsts, offset)
        if index:
            run = self._runs[index - 1]
            if offset <= run.last:
                rest = Run(
                    offset,
                    run.last,
                    run.batch,
                    run.state,
                    run.delivery_count,
                    run.member_id,
                    run.deadline,
                    run.change,
                    run.next_state,
                )
                run.last = offset - 1
                self._runs.insert(index, rest)
                self._firsts.insert(index, offset)
        return index

    def check(self) -> None:
        """Assert the invariants."""
        assert self._firsts == [run.first for run in self._runs]
        for run in self._runs:
            assert run.batch.first <= run.first <= run.last <= run.batch.last
        for one, other in zip(self._runs, self._runs[1:], strict=False):
            assert one.last < other.first, "runs do not overlap"
