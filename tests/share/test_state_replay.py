"""Loading the states of share partitions: what cannot be read is skipped, and nothing else."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable

import pytest

from kafkapy.protocol.compression import Compression
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.messages.share_state_records import ShareUpdateValue, StateBatch
from kafkapy.protocol.records import Record, build_batch
from kafkapy.share import state_replay
from kafkapy.share.state import ShareState
from kafkapy.share.state_records import UPDATE, ShareKey, encode_record
from kafkapy.share.state_replay import ShareStateReplay
from kafkapy.storage.log.marker_batch import prepare_marker
from kafkapy.storage.log.markers import TransactionMarker

KEY, OTHER = ShareKey("g", bytes(range(16)), 0), ShareKey("h", bytes(range(16)), 3)
STATE = ShareState(state_epoch=1, leader_epoch=2, start_offset=10)
Pair = tuple[bytes | None, bytes | None]


class Log:
    """A log of batches, one after another, that is replayed."""

    def __init__(self) -> None:
        self.replay = ShareStateReplay("__share_group_state-0")
        self.end = 0

    def batch(self, *pairs: Pair, compression: Compression = Compression.NONE) -> bytes:
        records = [Record(-1, 0, key, value, []) for key, value in pairs]
        batch = bytes(build_batch(records, base_offset=self.end, compression=compression))
        self.end += len(pairs)
        return batch

    def add(self, *pairs: Pair) -> None:
        self.replay.add(self.batch(*pairs))

    @property
    def starts(self) -> dict[ShareKey, int]:
        """The start offset of each state."""
        return {key: state.start_offset for key, state in self.replay.result().items()}


def snapshot(key: ShareKey, start_offset: int) -> tuple[bytes, bytes]:
    name, value = encode_record(key, ShareState(start_offset=start_offset).snapshot())
    assert value is not None
    return name, value


def update(key: ShareKey, **fields: int) -> Pair:
    batch = StateBatch(first_offset=12, last_offset=13, delivery_state=2, delivery_count=1)
    return encode_record(key, ShareUpdateValue(state_batches=[batch], **fields))


@pytest.fixture
def log() -> Log:
    return Log()


def test_the_records_of_a_key_follow_one_another(log: Log) -> None:
    log.add(encode_record(KEY, STATE.snapshot()), update(KEY, leader_epoch=-1, start_offset=-1))
    log.add(snapshot(OTHER, 5), update(KEY, leader_epoch=4, start_offset=11, delivery_complete_count=3))
    found = log.replay.result()
    assert set(found) == {KEY, OTHER}
    state = found[KEY]
    assert (state.start_offset, state.leader_epoch, state.state_epoch) == (11, 4, 1)
    assert (state.delivery_complete_count, state.updates, state.snapshot_offset) == (3, 2, 0)
    assert state.batches == ((12, 13, 2, 1),)
    assert found[OTHER].snapshot_offset == 2


def test_a_tombstone_ends_a_state(log: Log) -> None:
    log.add(snapshot(KEY, 1), snapshot(OTHER, 2), encode_record(KEY, None))
    assert log.starts == {OTHER: 2}
    log.add(snapshot(KEY, 7), encode_record(ShareKey("unknown", KEY.topic_id, 0), None))
    assert log.starts == {OTHER: 2, KEY: 7}


def test_an_update_whose_snapshot_is_deleted_begins_a_state(log: Log) -> None:
    """It is followed by a snapshot, which made the one before it redundant."""
    log.add(update(KEY, leader_epoch=3, start_offset=4))
    assert log.starts == {KEY: 4}
    assert log.replay.result()[KEY].snapshot_offset == -1
    log.add(encode_record(KEY, STATE.snapshot()))
    assert log.replay.result()[KEY].batches == ()


@pytest.mark.parametrize(
    "odd",
    [
        (None, b"value"),
        (b"", b"value"),
        (b"\x00", b"value"),
        (snapshot(KEY, 9)[0][:-1], snapshot(KEY, 9)[1]),
        (snapshot(KEY, 9)[0], b""),
        (snapshot(KEY, 9)[0], snapshot(KEY, 9)[1][:-1]),
        (snapshot(KEY, 9)[0], struct.pack(">h", 1) + snapshot(KEY, 9)[1][2:]),
        (struct.pack(">h", UPDATE) + snapshot(KEY, 9)[0][2:], b"\x00\x00"),
    ],
    ids=["no key", "empty key", "half a type", "cut key", "no version", "cut value", "version 1", "empty"],
)
def test_a_record_that_cannot_be_read_is_skipped(
    log: Log, caplog: pytest.LogCaptureFixture, odd: Pair
) -> None:
    log.add(snapshot(KEY, 1), odd, snapshot(OTHER, 2))
    log.add(snapshot(OTHER, 3))
    assert log.starts == {KEY: 1, OTHER: 3}, "those before and after it count"
    (logged,) = caplog.messages
    assert logged.startswith("__share_group_state-0: the record at offset 1 cannot be read: ")


def test_a_record_of_a_newer_type_is_ignored(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    key, value = snapshot(KEY, 9)
    log.add(snapshot(KEY, 1), (struct.pack(">h", 2) + key[2:], value), (struct.pack(">h", -1), None))
    assert log.starts == {KEY: 1}
    assert not caplog.messages


def test_a_marker_is_no_record(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    (marker,) = prepare_marker(
        7, 0, TransactionMarker(aborted=False, coordinator_epoch=0, timestamp=0)
    ).batches
    log.replay.add(log.batch(snapshot(KEY, 1)) + bytes(marker.buffer) + log.batch(snapshot(OTHER, 2)))
    assert log.starts == {KEY: 1, OTHER: 2}
    assert not caplog.messages


def test_a_batch_that_cannot_be_read_is_skipped(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    before = log.batch(snapshot(KEY, 1))
    broken = log.batch(snapshot(KEY, 2), snapshot(KEY, 3), compression=Compression.GZIP)
    cut = broken[:-20] + bytes(20)
    log.replay.add(before + cut + log.batch(snapshot(OTHER, 4)))
    assert log.starts == {KEY: 1, OTHER: 4}
    (logged,) = caplog.messages
    assert logged.startswith("__share_group_state-0: offsets 1 to 2 cannot be read and are skipped: ")


def test_bytes_that_are_no_batches_are_an_error(log: Log) -> None:
    with pytest.raises(DecodeError):
        log.replay.add(log.batch(snapshot(KEY, 1)) + bytes(100))


@pytest.mark.parametrize("reader", ["decode_records", "decode_record"])
@pytest.mark.parametrize("lack", [MemoryError(), OSError(errno.EMFILE, os.strerror(errno.EMFILE))])
def test_a_lack_of_memory_says_nothing_of_a_record(
    log: Log, monkeypatch: pytest.MonkeyPatch, reader: str, lack: Exception
) -> None:
    """Or the state would be loaded without it."""
    monkeypatch.setattr(state_replay, reader, _raising(lack))
    with pytest.raises(type(lack)):
        log.add(snapshot(KEY, 1))


def _raising(error: Exception) -> Callable[..., object]:
    def fail(*arguments: object) -> object:
        raise error

    return fail
