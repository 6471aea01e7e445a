"""The decisions of a share coordinator about the states of share partitions.

An event is a record, which `replayed` applies; so the same code applies an event and loads a partition. This
module does no I/O; the time is an argument. Source: Apache Kafka's ShareCoordinatorShard.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.initialize_share_group_state import PartitionData as InitialState
from kafkapy.protocol.messages.share_state_records import ShareSnapshotValue, ShareUpdateValue
from kafkapy.protocol.messages.write_share_group_state import PartitionData as WrittenState
from kafkapy.share.share_partition import StoredBatch
from kafkapy.share.state import UNKNOWN, ShareState, merge, read_snapshot, write_batches

MAX_UPDATES: Final = 500
"""The default of share.coordinator.snapshot.update.records.per.snapshot."""

Record = ShareSnapshotValue | ShareUpdateValue | None
"""A record; None for a tombstone."""


def replayed(state: ShareState | None, record: Record, offset: int) -> ShareState | None:
    """The state after the record at this offset; None if there is none any more."""
    if record is None:
        return None
    if isinstance(record, ShareUpdateValue):
        return (state or ShareState()).after(record)
    after = read_snapshot(record, offset)
    if state is None:
        return after
    return replace(  # the epochs that fence never go back
        after,
        leader_epoch=max(after.leader_epoch, state.leader_epoch),
        state_epoch=max(after.state_epoch, state.state_epoch),
    )


def initialization(state: ShareState | None, request: InitialState, *, now_ms: int) -> Record:
    """Begin at an offset.

    The record keeps the epochs that fence: those before it are deleted.

    Raises:
        KafkaError: FENCED_STATE_EPOCH.
    """
    if state is not None and UNKNOWN != request.state_epoch < state.state_epoch:
        raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
    return ShareState(
        snapshot_epoch=0 if state is None else state.snapshot_epoch + 1,
        state_epoch=request.state_epoch if state is None else max(request.state_epoch, state.state_epoch),
        leader_epoch=0 if state is None else state.leader_epoch,
        start_offset=request.start_offset,
        delivery_complete_count=UNKNOWN if request.start_offset == UNKNOWN else 0,
        create_timestamp=now_ms,
        write_timestamp=now_ms,
    ).snapshot()


def write(state: ShareState | None, request: WrittenState, *, now_ms: int, max_updates: int) -> Record:
    """Store what the leader of a partition decided.

    Raises:
        KafkaError: INVALID_REQUEST, FENCED_LEADER_EPOCH or FENCED_STATE_EPOCH.
    """
    if state is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Write operation on uninitialized share partition not allowed."
        )
    if UNKNOWN != request.leader_epoch < state.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    if UNKNOWN != request.state_epoch < state.state_epoch:
        raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
    more = tuple(
        StoredBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in request.state_batches
    )
    update = ShareUpdateValue(
        snapshot_epoch=state.snapshot_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=request.start_offset,
        delivery_complete_count=request.delivery_complete_count,
        state_batches=write_batches(merge((), more, request.start_offset)),
    )
    return _update_or_snapshot(state, update, now_ms=now_ms, max_updates=max_updates)


def require_readable(state: ShareState | None, leader_epoch: int) -> ShareState:
    """The state, for a leader of the partition.

    Raises:
        KafkaError: INVALID_REQUEST or FENCED_LEADER_EPOCH.
    """
    if state is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Read operation on uninitialized share partition not allowed."
        )
    if UNKNOWN != leader_epoch < state.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    return state


def new_leader(state: ShareState, leader_epoch: int, *, now_ms: int, max_updates: int) -> Record:
    """Note the epoch of a new leader, so that earlier ones are fenced."""
    update = ShareUpdateValue(
        snapshot_epoch=state.snapshot_epoch,
        leader_epoch=leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
    )
    return _update_or_snapshot(state, update, now_ms=now_ms, max_updates=max_updates)


def cold_snapshot(state: ShareState, *, now_ms: int) -> ShareSnapshotValue:
    """A snapshot of a state that was not written for long: older records can be deleted then."""
    return replace(state.next_snapshot(), write_timestamp=now_ms).snapshot()


def _update_or_snapshot(
    state: ShareState, update: ShareUpdateValue, *, now_ms: int, max_updates: int
) -> Record:
    if state.updates < max_updates:
        return update
    after = state.after(update).next_snapshot()
    return replace(after, create_timestamp=now_ms, write_timestamp=now_ms).snapshot()
