"""The state of a share partition, as its share coordinator keeps it.

It changes by records only, in the order of the log. A snapshot replaces it, an update is merged into it. Of
two batches with the same offset, that with the higher delivery count wins, then that with the higher state: a
record never goes back. Source: Apache Kafka's ShareGroupOffset, PersisterStateBatchCombiner,
ShareCoordinatorShard.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kafkapy.protocol.messages.share_state_records import ShareSnapshotValue, ShareUpdateValue, StateBatch
from kafkapy.share.share_partition import StoredBatch, append_joined

UNKNOWN: Final = -1
"""An epoch, offset or count that a request or record leaves out."""


@dataclass(frozen=True, slots=True)
class ShareState:
    """The state of one share partition."""

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNKNOWN
    delivery_complete_count: int = UNKNOWN
    batches: tuple[StoredBatch, ...] = ()
    create_timestamp: int = 0
    write_timestamp: int = 0
    updates: int = 0
    """The updates since the last snapshot."""
    snapshot_offset: int = UNKNOWN
    """The offset of the last snapshot in its partition of the topic."""

    def after(self, update: ShareUpdateValue) -> ShareState:
        """The state after an update."""
        start_offset = self.start_offset if update.start_offset == UNKNOWN else update.start_offset
        leader_epoch = self.leader_epoch if update.leader_epoch == UNKNOWN else update.leader_epoch
        return replace(
            self,
            start_offset=start_offset,
            leader_epoch=leader_epoch,
            delivery_complete_count=update.delivery_complete_count,
            batches=merge(self.batches, read_batches(update.state_batches), start_offset),
            updates=self.updates + 1,
        )

    def snapshot(self) -> ShareSnapshotValue:
        """The record that stands for the complete state."""
        return ShareSnapshotValue(
            snapshot_epoch=self.snapshot_epoch,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            create_timestamp=self.create_timestamp,
            write_timestamp=self.write_timestamp,
            state_batches=write_batches(self.batches),
        )

    def next_snapshot(self) -> ShareState:
        """The state of the next snapshot."""
        return replace(self, snapshot_epoch=self.snapshot_epoch + 1, updates=0)


def read_snapshot(value: ShareSnapshotValue, offset: int) -> ShareState:
    """The state of a snapshot at this offset."""
    return ShareState(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=value.state_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        batches=read_batches(value.state_batches),
        create_timestamp=value.create_timestamp,
        write_timestamp=value.write_timestamp,
        snapshot_offset=offset,
    )


def read_batches(batches: Iterable[StateBatch]) -> tuple[StoredBatch, ...]:
    """The batches of a record."""
    return tuple(
        StoredBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in batches
    )


def write_batches(batches: Iterable[StoredBatch]) -> list[StateBatch]:
    """Batches for a record."""
    return [
        StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
        for first, last, state, count in batches
    ]


def merge(
    batches: Sequence[StoredBatch], more: Sequence[StoredBatch], start_offset: int
) -> tuple[StoredBatch, ...]:
    """The batches after `more` was merged into them; what is below `start_offset` is dropped.

    `batches` are in order and do not overlap. Neither does the result, whose neighbours differ.
    """
    low = start_offset if start_offset != UNKNOWN else 0
    found = [*batches[_first_from(batches, low) :]]
    if found and found[0].first < low:
        found[0] = found[0]._replace(first=low)
    for batch in more:
        if batch.first < low:
            batch = batch._replace(first=low)
        if batch.last < batch.first:
            continue
        if not found or found[-1].last < batch.first:  # nearly always
            append_joined(found, batch)
        else:
            _insert(found, batch)
    return tuple(found)


def _first_from(batches: Sequence[StoredBatch], offset: int) -> int:
    """The index of the first batch that ends at or after `offset`."""
    return bisect_left(batches, offset, key=lambda batch: batch.last)


def _insert(batches: list[StoredBatch], new: StoredBatch) -> None:
    """Merge one batch into batches that are in order and do not overlap."""
    start = _first_from(batches, new.first - 1)
    stop = start
    pieces: list[StoredBatch] = []
    at = new.first
    while stop < len(batches) and batches[stop].first <= new.last + 1:
        old = batches[stop]
        stop += 1
        if old.last < new.first or old.first > new.last:  # next to it
            if old.first > new.last and at <= new.last:
                pieces.append(new._replace(first=at))
                at = new.last + 1
            pieces.append(old)
            continue
        if old.first < new.first:
            pieces.append(old._replace(last=new.first - 1))
        elif at < old.first:
            pieces.append(new._replace(first=at, last=old.first - 1))
        first, last = max(old.first, new.first), min(old.last, new.last)
        winner = new if _rank(new) > _rank(old) else old
        pieces.append(winner._replace(first=first, last=last))
        at = last + 1
        if old.last > new.last:
            pieces.append(old._replace(first=new.last + 1))
    if at <= new.last:
        pieces.append(new._replace(first=at))
    joined: list[StoredBatch] = []
    for piece in pieces:
        append_joined(joined, piece)
    batches[start:stop] = joined


def _rank(batch: StoredBatch) -> tuple[int, int]:
    return batch.delivery_count, batch.state
