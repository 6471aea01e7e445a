"""What a share coordinator decides.

It decides whom to fence, and when a record holds the complete state.
"""

from __future__ import annotations

import pytest

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.share_state_records import ShareSnapshotValue, ShareUpdateValue
from kafkapy.share import states
from kafkapy.share.in_flight import RecordState
from kafkapy.share.share_partition import StoredBatch
from kafkapy.share.state import UNKNOWN, ShareState
from tests.share.states_world import initial, written

STATE = ShareState(snapshot_epoch=3, state_epoch=5, leader_epoch=7, start_offset=10)
ACCEPTED = StoredBatch(10, 14, RecordState.ACKNOWLEDGED, 1)
NOW_MS = 5_000


def write(
    state: ShareState | None, *batches: StoredBatch, max_updates: int = 3, **fields: int
) -> states.Record:
    return states.write(state, written(*batches, **fields), now_ms=NOW_MS, max_updates=max_updates)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"leader_epoch": 6, "state_epoch": 5}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"leader_epoch": 7, "state_epoch": 4}, ErrorCode.FENCED_STATE_EPOCH),
        ({"leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"state_epoch": 0}, ErrorCode.FENCED_STATE_EPOCH),
        ({"leader_epoch": 6, "state_epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_a_write_of_an_older_epoch_is_fenced(fields: dict[str, int], error: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        write(STATE, ACCEPTED, **fields)
    assert refused.value.code is error


@pytest.mark.parametrize(
    "fields",
    [
        {"leader_epoch": 7, "state_epoch": 5},
        {"leader_epoch": 8, "state_epoch": 6},
        {"leader_epoch": UNKNOWN, "state_epoch": UNKNOWN},
    ],
)
def test_a_write_of_this_epoch_a_newer_one_or_none_is_taken(fields: dict[str, int]) -> None:
    assert isinstance(write(STATE, ACCEPTED, **fields), ShareUpdateValue)


def test_an_initialization_of_an_older_state_epoch_is_fenced() -> None:
    with pytest.raises(KafkaError, match="FENCED_STATE_EPOCH"):
        states.initialization(STATE, initial(state_epoch=4), now_ms=NOW_MS)
    for epoch, kept in ((5, 5), (6, 6), (UNKNOWN, 5)):
        record = states.initialization(STATE, initial(state_epoch=epoch), now_ms=NOW_MS)
        assert isinstance(record, ShareSnapshotValue)
        assert (record.snapshot_epoch, record.leader_epoch) == (4, 7)
        assert record.state_epoch == kept, "nothing else is left of it when older records are deleted"


def test_a_read_of_an_older_leader_epoch_is_fenced() -> None:
    with pytest.raises(KafkaError, match="FENCED_LEADER_EPOCH"):
        states.require_readable(STATE, 6)
    for epoch in (7, 8, UNKNOWN):
        assert states.require_readable(STATE, epoch) is STATE


def test_what_was_not_initialized_is_neither_read_nor_written() -> None:
    with pytest.raises(KafkaError, match="INVALID_REQUEST"):
        write(None, ACCEPTED)
    with pytest.raises(KafkaError, match="INVALID_REQUEST"):
        states.require_readable(None, 0)


def test_a_snapshot_with_the_whole_state_follows_so_many_updates() -> None:
    state = STATE
    for offset in range(3):
        batch = StoredBatch(20 + offset, 20 + offset, RecordState.ACKNOWLEDGED, offset + 1)
        record = write(state, batch, delivery_complete_count=offset)
        assert isinstance(record, ShareUpdateValue)
        state = state.after(record)
    record = write(state, ACCEPTED, start_offset=12, delivery_complete_count=9)
    assert isinstance(record, ShareSnapshotValue)
    after = states.replayed(state, record, 50)
    assert after == ShareState(
        snapshot_epoch=4,
        state_epoch=5,
        leader_epoch=7,
        start_offset=12,
        delivery_complete_count=9,
        batches=(
            StoredBatch(12, 14, RecordState.ACKNOWLEDGED, 1),
            *(StoredBatch(20 + each, 20 + each, RecordState.ACKNOWLEDGED, each + 1) for each in range(3)),
        ),
        create_timestamp=NOW_MS,
        write_timestamp=NOW_MS,
        updates=0,
        snapshot_offset=50,
    )


def test_a_new_leader_comes_with_a_snapshot_too_when_it_is_time() -> None:
    def new_leader(state: ShareState) -> states.Record:
        return states.new_leader(state, 9, now_ms=NOW_MS, max_updates=1)

    first = new_leader(STATE)
    assert isinstance(first, ShareUpdateValue)
    record = new_leader(STATE.after(first))
    assert isinstance(record, ShareSnapshotValue)
    assert (record.leader_epoch, record.start_offset, record.snapshot_epoch) == (9, 10, 4)


def test_the_epochs_that_fence_never_go_back() -> None:
    snapshot = ShareState(state_epoch=1, leader_epoch=1, start_offset=30).snapshot()
    after = states.replayed(STATE, snapshot, 50)
    assert after is not None
    assert (after.state_epoch, after.leader_epoch, after.start_offset) == (5, 7, 30)
