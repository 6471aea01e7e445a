"""A share partition: which member of a share group has which record of a partition.

    start offset          next offset
        │  in flight          │  not read yet
    ────┼─────────────────────┼──────────────►
        AVAILABLE, ACQUIRED …

Records below the start offset are done with. It moves when the first records in flight reach a terminal
state, and with the log start offset. Members acquire records, under a lock that ends after some time, and
acknowledge them: they accept, release, reject or renew them, or say that there is a gap without records. A
record that was delivered too often is archived instead of becoming available. What is decided about a record
counts when it has been stored (`Change`, `committed`); if it cannot be stored, the record is acquired as
before (`failed`). An end of a lock counts at once.

Records that fail again and again must not take others with them: the more often records of a batch have been
delivered, the fewer are delivered together, and for the last time each alone.

This module does no I/O and takes its clock as an argument. `check()` asserts the invariants. Source: Apache
Kafka's SharePartition, InFlightState; KIP-932, KIP-1206 (record limit), KIP-1222 (renewals).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.share.in_flight import Batch, Change, InFlight, RecordState, Run

GAP: Final = 0
ACCEPT: Final = 1
RELEASE: Final = 2
REJECT: Final = 3
RENEW: Final = 4
_STATE_AFTER: Final = {
    GAP: RecordState.ARCHIVED,
    ACCEPT: RecordState.ACKNOWLEDGED,
    RELEASE: RecordState.AVAILABLE,
    REJECT: RecordState.ARCHIVED,
}
_ALONE_FROM: Final = 3
"""From this delivery count limit on, records are delivered alone for the last time."""


class BatchSpan(NamedTuple):
    """The offsets of a batch in the log."""

    base_offset: int
    last_offset: int


class AcquiredRange(NamedTuple):
    """Offsets that a member has acquired, each for the `delivery_count`-th time."""

    first: int
    last: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    """A member's acknowledgement of offsets: one type for all of them, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class StoredBatch(NamedTuple):
    """Offsets with their state and delivery count, as the share coordinator keeps them."""

    first: int
    last: int
    state: int
    delivery_count: int


def append_joined(batches: list[StoredBatch], batch: StoredBatch) -> None:
    """Add a batch, joined with the last one if that is alike and next to it."""
    if batches:
        first, last, state, count = batches[-1]
        if last + 1 == batch.first and state == batch.state and count == batch.delivery_count:
            batches[-1] = StoredBatch(first, batch.last, state, count)
            return
    batches.append(batch)


class StateChange(Change):
    """The changes of one event that must be stored."""

    def __init__(self, batches: Sequence[StoredBatch]) -> None:
        self.batches = batches


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """The settings of a share group that its share partitions obey."""

    delivery_count: int = 5
    records: int = 2000
    """How many records may be in flight."""
    lock_seconds: float = 30.0
    may_renew: bool = True


class SharePartition:
    """One partition for one share group."""

    def __init__(self, limits: Callable[[], ShareLimits]) -> None:
        """`limits` returns the present settings of the group."""
        self._limits = limits
        self.start_offset = 0
        self.next_offset = 0
        """The offset after all records in flight."""
        self.in_flight = InFlight()

    def restore(self, start_offset: int, batches: Iterable[StoredBatch]) -> None:
        """Begin with what was stored.

        Between stored batches there may be records that were acquired, of which nothing was stored: they are
        available.

        Raises:
            ValueError: the state is impossible.
        """
        self.start_offset = self.next_offset = start_offset
        for first, last, state, count in batches:
            if first < self.next_offset or last < first:
                raise ValueError(f"a batch from {first} to {last} where {self.next_offset} is next")
            if first > self.next_offset:
                gap = Batch(self.next_offset, first - 1)
                self.in_flight.add(Run(*_ends(gap), gap, RecordState.AVAILABLE, 0))
            batch = Batch(first, last)
            self.in_flight.add(Run(first, last, batch, RecordState(state), count))
            self.next_offset = last + 1
        self._advance()

    # --- what to fetch --------------------------------------------------------------------------------

    @property
    def records_in_flight(self) -> int:
        """How many records are in flight, with the gaps between them."""
        return self.next_offset - self.start_offset if self.in_flight else 0

    @property
    def delivery_complete_count(self) -> int:
        """How many records from the start offset on need no delivery any more."""
        return sum(run.size for run in self.in_flight if run.is_settled)

    def fetch_offset(self) -> int:
        """The offset from which records may be acquired: the first available one, or the next."""
        return next((run.first for run in self.in_flight if run.is_available), self.next_offset)

    def may_acquire(self) -> bool:
        """Whether there may be records to acquire at `fetch_offset`."""
        return self.fetch_offset() != self.next_offset or self.records_in_flight < self._limits().records

    # --- acquisition ----------------------------------------------------------------------------------

    def acquire(
        self,
        member_id: str,
        spans: Sequence[BatchSpan],
        *,
        fetch_offset: int,
        max_records: int,
        batch_size: int,
        now: float,
        exact: bool = False,
    ) -> list[AcquiredRange]:
        """Give a member records that were read, from `fetch_offset` on.

        Args:
            member_id: the member.
            spans: the batches that were read, which may begin before or after the `fetch_offset`.
            fetch_offset: the offset from which they were read.
            max_records: how many records the member wants. It gets more, so that batches stay whole.
            batch_size: into ranges of about so many records new records are divided.
            now: the time in seconds of a monotonic clock.
            exact: whether the member gets no more than `max_records`.
        """
        if max_records <= 0 or not spans or spans[-1].last_offset < self.start_offset:
            return []
        last = spans[-1].last_offset
        room = self._limits().records - self.records_in_flight
        if room <= 0:
            # Nothing is read beyond what is in flight, but records that were released are delivered.
            if fetch_offset >= self.next_offset:
                return []
            room = self.next_offset - fetch_offset
            last = min(last, self.next_offset - 1)
        acquisition = _Acquisition(self, member_id, min(max_records, room), now, exact=exact)
        self._archive_missing(fetch_offset, spans[0].base_offset)
        first = max(spans[0].base_offset, self.start_offset)
        known = self.in_flight.between(first, last)
        for batch, runs in groupby(known, key=lambda run: run.batch):
            if not acquisition.take_known(batch, list(runs), first, last, spans):
                break
        else:
            if acquisition.left > 0 and last >= self.next_offset:
                first = max(first, self.next_offset)
                acquisition.take_new(first, last, spans, batch_size)
        self.in_flight.join(self.start_offset, last)
        return acquisition.ranges

    def archive_aborted(
        self, acquired: Sequence[AcquiredRange], aborted: Sequence[BatchSpan]
    ) -> list[AcquiredRange]:
        """Archive those acquired records that are in aborted transactions; return the other ranges."""
        left = list(acquired)
        for span in aborted:
            rest = []
            for each in left:
                if span.last_offset < each.first or each.last < span.base_offset:
                    rest.append(each)
                    continue
                if each.first < span.base_offset:
                    rest.append(each._replace(last=span.base_offset - 1))
                if each.last > span.last_offset:
                    rest.append(each._replace(first=span.last_offset + 1))
                first, last = max(each.first, span.base_offset), min(each.last, span.last_offset)
                for run in self.in_flight.cut(first, last):
                    _settle(run, RecordState.ARCHIVED)
                self.in_flight.join(first, last)
            left = rest
        if aborted:
            self._advance()
        return left

    def _archive_missing(self, fetch_offset: int, base_offset: int) -> None:
        """Archive available records between these offsets: compaction has removed them."""
        if fetch_offset >= base_offset:
            return
        for run in self.in_flight.cut(fetch_offset, base_offset - 1):
            if run.is_available:
                _settle(run, RecordState.ARCHIVED)
        self.in_flight.join(fetch_offset, base_offset - 1)
        self._advance()

    # --- acknowledgement ------------------------------------------------------------------------------

    def acknowledge(
        self, member_id: str, acknowledgements: Sequence[Acknowledgement], *, now: float
    ) -> StateChange:
        """Begin to change records as their member says; renewals count at once.

        Records below the start offset are left out.

        Raises:
            KafkaError: INVALID_RECORD_STATE or INVALID_REQUEST; nothing has changed.
        """
        parts = []
        checked = self.start_offset
        for acknowledgement in acknowledgements:
            first = max(acknowledgement.first, self.start_offset)
            if acknowledgement.last < first:
                continue
            if first < checked:
                raise _invalid_state("The offset is acknowledged twice.")
            checked = acknowledgement.last + 1
            self._require_acquired(member_id, acknowledgement, first)
            parts += self._parts(acknowledgement, first)
        limits = self._limits()
        if not limits.may_renew and any(kind == RENEW for _, _, kind in parts):
            raise _invalid_state("Renewing acquisition locks is not enabled for the group.")
        changed = []
        for first, last, kind in parts:
            runs = self.in_flight.cut(first, last)
            if kind == RENEW:
                for run in runs:
                    run.deadline = now + limits.lock_seconds
            else:
                changed += [(run, _STATE_AFTER[kind]) for run in runs]
        change = self._begin(changed)
        for first, last, kind in parts:
            if kind == RENEW:
                self.in_flight.join(first, last)
        return change

    def release(self, member_id: str) -> StateChange:
        """Begin to make all records available that a member has acquired: its session is over."""
        return self._begin(
            [
                (run, RecordState.AVAILABLE)
                for run in self.in_flight
                if run.state is RecordState.ACQUIRED and run.member_id == member_id and run.change is None
            ]
        )

    def _require_acquired(self, member_id: str, acknowledgement: Acknowledgement, first: int) -> None:
        """Raise KafkaError unless a member has acquired all these records."""
        last = acknowledgement.last
        runs = self.in_flight.between(first, last)
        if not runs:
            earliest = self.in_flight.first
            if earliest is not None and earliest.first <= first:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "Batch record not found. The first offset in request is past acquired records.",
                )
            raise _invalid_state(
                "Batch record not found. The request batch offsets are not found in the cache."
            )
        if last > runs[-1].last:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "Batch record not found. The last offset in request is past acquired records.",
            )
        for run in runs:
            if run.state is not RecordState.ACQUIRED:
                raise _invalid_state(
                    "The batch cannot be acknowledged. The batch is not in the acquired state."
                )
            if run.change is not None:
                raise _invalid_state(
                    "The record state is invalid. The acknowledgement of delivery could not be completed."
                )
            if run.member_id != member_id:
                raise _invalid_state("Member is not the owner of batch record")

    def _parts(self, acknowledgement: Acknowledgement, first: int) -> list[tuple[int, int, int]]:
        """Ranges of offsets from `first` on with their types."""
        types = acknowledgement.types
        if len(types) == 1:
            return [(first, acknowledgement.last, types[0])]
        types = types[first - acknowledgement.first :]
        parts = []
        begin, present = first, types[0]
        for offset, kind in enumerate(types, first):
            if kind != present:
                parts.append((begin, offset - 1, present))
                begin, present = offset, kind
        return [*parts, (begin, acknowledgement.last, present)]

    def _begin(self, changed: Sequence[tuple[Run, RecordState]]) -> StateChange:
        limit = self._limits().delivery_count
        batches: list[StoredBatch] = []
        change = StateChange(batches)
        for run, state in changed:
            if state is RecordState.AVAILABLE and run.delivery_count >= limit:
                state = RecordState.ARCHIVED
            run.change, run.next_state = change, state
            append_joined(batches, StoredBatch(run.first, run.last, state, run.delivery_count))
        return change

    # --- the ends of changes and locks ----------------------------------------------------------------

    def committed(self, change: StateChange) -> None:
        """Note that a change has been stored."""
        for run in self._of(change):
            _settle(run, run.next_state)
        self._end(change)

    def failed(self, change: StateChange, now: float) -> None:
        """Note that a change could not be stored: its records stay acquired until their lock ends."""
        limit = self._limits().delivery_count
        for run in self._of(change):
            run.change, run.next_state = None, RecordState.AVAILABLE
            if run.deadline <= now:
                _settle(run, _after_lock(run, limit))
        self._end(change)

    def expire(self, now: float) -> Sequence[StoredBatch]:
        """End the locks whose time is over; return the changes to store."""
        limit = self._limits().delivery_count
        batches: list[StoredBatch] = []
        for run in self.in_flight:
            if run.state is RecordState.ACQUIRED and run.change is None and run.deadline <= now:
                _settle(run, _after_lock(run, limit))
                append_joined(batches, StoredBatch(run.first, run.last, run.state, run.delivery_count))
        if batches:
            self.in_flight.join(batches[0].first, batches[-1].last)
            self._advance()
        return batches

    def next_deadline(self) -> float | None:
        """When the next lock ends; None if there are no locks."""
        return min(
            (
                run.deadline
                for run in self.in_flight
                if run.state is RecordState.ACQUIRED and run.change is None
            ),
            default=None,
        )

    def log_started_at(self, offset: int) -> bool:
        """Note the log start offset; return whether records in flight are gone."""
        if offset <= self.start_offset:
            return False
        self.start_offset = offset
        self.next_offset = max(self.next_offset, offset)
        self.in_flight.drop_below(offset)
        self._advance()
        return True

    def _of(self, change: StateChange) -> list[Run]:
        """The runs of a change; those below the start offset are gone."""
        if not change.batches:
            return []
        between = self.in_flight.between(change.batches[0].first, change.batches[-1].last)
        return [run for run in between if run.change is change]

    def _end(self, change: StateChange) -> None:
        if change.batches:
            self.in_flight.join(change.batches[0].first, change.batches[-1].last)
            self._advance()

    def _advance(self) -> None:
        """Move the start offset over records in a terminal state."""
        last = self.in_flight.drop_terminal()
        if last is not None:
            self.start_offset = last + 1
        first = self.in_flight.first
        self.start_offset = max(self.start_offset, self.next_offset if first is None else first.first)

    # --- invariants -----------------------------------------------------------------------------------

    def check(self) -> None:
        """Assert the invariants that hold between any two events."""
        self.in_flight.check()
        first, last = self.in_flight.first, self.in_flight.last
        assert self.start_offset <= self.next_offset
        if first is None or last is None:
            assert self.start_offset == self.next_offset
            return
        assert self.start_offset == first.first, "the start offset is that of the first record in flight"
        assert last.last < self.next_offset
        assert not first.state.is_terminal, "the start offset moves over what is done with"
        for run in self.in_flight:
            if run.state is RecordState.ACQUIRED:
                assert run.member_id
                assert run.delivery_count > 0
            else:
                assert run.change is None
                assert not run.member_id
                assert not run.deadline


class _Acquisition:
    """The records that one request acquires of a share partition."""

    def __init__(
        self, partition: SharePartition, member_id: str, max_records: int, now: float, *, exact: bool
    ) -> None:
        limits = partition._limits()
        self._in_flight = partition.in_flight
        self._partition = partition
        self._member_id = member_id
        self._exact = exact
        self._limit = limits.delivery_count
        self._throttled_from = max(2, -(-limits.delivery_count // 2))
        self._deadline = now + limits.lock_seconds
        self.left = max_records
        """How many more records the member wants."""
        self.ranges: list[AcquiredRange] = []

    def take_known(
        self, batch: Batch, runs: Sequence[Run], first: int, last: int, spans: Sequence[BatchSpan]
    ) -> bool:
        """Acquire available records of a batch, from `first` to `last`; return whether to continue."""
        available = [run for run in runs if run.is_available]
        if self.left <= 0:
            return False
        if not available:
            return True
        throttled = max(run.delivery_count for run in available) >= self._throttled_from
        if throttled and self.ranges:
            return False  # with the next request, and with nothing else
        taken = 0
        most: int | None = self.left if self._exact else None
        for run in available:
            count = run.delivery_count
            alone = self._limit >= _ALONE_FROM and count == self._limit - 1
            if alone and taken:
                break
            if count >= self._throttled_from:
                fewer = max(1, batch.size >> (count - self._throttled_from + 1))
                most = fewer if most is None else min(most, fewer)
            begin, end = max(run.first, first), min(run.last, last)
            if alone:
                end = begin
            elif most is not None:
                end = min(end, begin + most - taken - 1)
            elif count == 0:  # it was not delivered as one batch yet
                end = min(end, _whole_batches(spans, begin + self.left - taken - 1))
            if end < begin:
                break
            taken += self._take(begin, end, count + 1)
            if alone or taken == most:
                break
        self.left -= taken
        return not (throttled and taken)

    def take_new(self, first: int, last: int, spans: Sequence[BatchSpan], batch_size: int) -> None:
        """Acquire records that were never in flight, from `first` to `last`."""
        wanted = first + self.left - 1
        if wanted < last:
            last = min(last, _whole_batches(spans, wanted))
        begin = first
        if not self._exact:
            for base, _ in spans:
                if begin + batch_size <= base <= last and last - first + 1 > batch_size:
                    self._take_batch(Batch(begin, base - 1), base - 1)
                    begin = base
        self._take_batch(Batch(begin, last), min(last, wanted) if self._exact else last)

    def _take_batch(self, batch: Batch, last: int) -> None:
        """Acquire a new batch up to `last`; the rest of it is available."""
        self._in_flight.add(Run(*_ends(batch), batch, RecordState.AVAILABLE, 0))
        self._partition.next_offset = batch.last + 1
        first_run = self._in_flight.first
        assert first_run is not None
        self._partition.start_offset = max(self._partition.start_offset, first_run.first)
        self.left -= self._take(batch.first, last, 1)

    def _take(self, first: int, last: int, delivery_count: int) -> int:
        for run in self._in_flight.cut(first, last):
            run.state, run.delivery_count = RecordState.ACQUIRED, delivery_count
            run.member_id, run.deadline = self._member_id, self._deadline
            before = self.ranges[-1] if self.ranges else None
            if (
                before is not None
                and before.last + 1 == run.first > run.batch.first
                and before.delivery_count == delivery_count
            ):
                self.ranges[-1] = before._replace(last=run.last)
            else:
                self.ranges.append(AcquiredRange(run.first, run.last, delivery_count))
        return last - first + 1


def _whole_batches(spans: Sequence[BatchSpan], offset: int) -> int:
    """The last offset of the batch that has `offset`; `offset` itself if there is none."""
    return next(
        (each.last_offset for each in spans if each.base_offset <= offset <= each.last_offset), offset
    )


def _ends(batch: Batch) -> tuple[int, int]:
    return batch.first, batch.last


def _after_lock(run: Run, limit: int) -> RecordState:
    return RecordState.ARCHIVED if run.delivery_count >= limit else RecordState.AVAILABLE


def _settle(run: Run, state: RecordState) -> None:
    run.state, run.member_id, run.deadline = state, "", 0.0
    run.change, run.next_state = None, RecordState.AVAILABLE


def _invalid_state(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD_STATE, message)
