"""Producer snapshots: Kafka's files, and what becomes of damaged ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.storage.disk.file_names import snapshot_offset
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.producer_snapshots import (
    CorruptSnapshotError,
    ProducerSnapshots,
    decode_snapshot,
    encode_snapshot,
)
from kafkapy.storage.log.producers import CachedBatch, ProducerEntry, ProducerStates
from tests.storage.log.producer_batches import DAY, NOW, data, write

WRITTEN_BY_KAFKA = bytes.fromhex(
    "00014f706c59000000020000000000000007000200"
    "00000c00000000000000680000000400000000000003e8ffffffff000000000000005a0000010000000000"
    "0000ffffffffffffffffffffffff00000000ffffffffffffffff00000003ffffffffffffffff"
)
"""By ProducerStateManager.writeSnapshot of Apache Kafka 4.3.1: producer 7 with a transaction open since
offset 90,
and producer 2**40 of which only a marker is left."""


def states_of(*batches: tuple[int, int]) -> ProducerStates:
    states = ProducerStates(expiration_ms=DAY)
    for offset, sequence in batches:
        write(states, data(offset, sequence))
    return states


def snapshots_in(directory: Path) -> ProducerSnapshots:
    offsets = [o for path in directory.iterdir() if (o := snapshot_offset(path.name)) is not None]
    return ProducerSnapshots(FileSystem(), str(directory), offsets)


def load(snapshots: ProducerSnapshots, *, start: int = 0, end: int, now: int = NOW) -> ProducerStates:
    states = ProducerStates(expiration_ms=DAY)
    snapshots.load(states, log_start_offset=start, log_end_offset=end, now_ms=now)
    return states


def test_kafkas_snapshot_is_read_and_written() -> None:
    producers = decode_snapshot(WRITTEN_BY_KAFKA)
    first, second = producers[7], producers[1 << 40]
    assert (first.epoch, first.coordinator_epoch, first.txn_first_offset) == (2, -1, 90)
    assert first.batches == [CachedBatch(12, 104, 4, 1000)]
    assert (second.epoch, second.coordinator_epoch, second.txn_first_offset) == (0, 3, -1)
    assert second.batches == []
    states = ProducerStates(expiration_ms=DAY)
    states.restore(producers, 105)
    assert states.first_unstable_offset == 90
    assert encode_snapshot(dict(states)) == WRITTEN_BY_KAFKA


def test_all_cached_batches_survive_with_the_newest_last(tmp_path: Path) -> None:
    states = states_of(*[(number, number) for number in range(7)])
    snapshots = snapshots_in(tmp_path)
    assert snapshots.take(states) == f"{tmp_path}/00000000000000000007.snapshot"
    loaded = load(snapshots_in(tmp_path), end=7)
    entry = loaded.get(1)
    assert entry is not None
    assert [batch.last_sequence for batch in entry.batches] == [2, 3, 4, 5, 6]
    assert entry.last_sequence == 6
    assert write(loaded, data(7, 2)).duplicate is not None
    write(loaded, data(7, 7))


def test_expired_producers_are_not_loaded(tmp_path: Path) -> None:
    snapshots_in(tmp_path).take(states_of((0, 0)))
    assert len(load(snapshots_in(tmp_path), end=1, now=NOW + DAY - 1)) == 1
    assert len(load(snapshots_in(tmp_path), end=1, now=NOW + DAY)) == 0


def test_a_snapshot_is_taken_once_for_an_offset(tmp_path: Path) -> None:
    states, snapshots = states_of((0, 0)), snapshots_in(tmp_path)
    assert snapshots.take(states) is not None
    assert snapshots.take(states) is None
    write(states, data(1, 1))
    assert snapshots.take(states) is not None
    assert list(snapshots.offsets) == [1, 2]


def test_snapshots_outside_the_log_are_deleted(tmp_path: Path) -> None:
    states, snapshots = ProducerStates(expiration_ms=DAY), snapshots_in(tmp_path)
    for number in range(4):
        write(states, data(number, number))
        snapshots.take(states)
    loaded = load(snapshots_in(tmp_path), start=1, end=3)
    assert loaded.end_offset == 3
    assert sorted(path.name[:20] for path in tmp_path.iterdir()) == [f"{2:020d}", f"{3:020d}"]


def test_a_damaged_snapshot_gives_way_to_an_older_one(tmp_path: Path) -> None:
    states, snapshots = ProducerStates(expiration_ms=DAY), snapshots_in(tmp_path)
    for number in range(2):
        write(states, data(number, number))
        snapshots.take(states)
    (tmp_path / f"{2:020d}.snapshot").write_bytes(b"")
    loaded = load(snapshots_in(tmp_path), end=2)
    assert loaded.end_offset == 1
    assert not (tmp_path / f"{2:020d}.snapshot").exists()


def test_without_a_snapshot_the_state_is_that_of_the_log_start(tmp_path: Path) -> None:
    loaded = load(snapshots_in(tmp_path), start=5, end=9)
    assert loaded.end_offset == 5
    assert len(loaded) == 0


def test_states_at_the_end_of_the_log_are_kept(tmp_path: Path) -> None:
    states = states_of((0, 0))
    snapshots = snapshots_in(tmp_path)
    snapshots.load(states, log_start_offset=0, log_end_offset=1, now_ms=NOW)
    assert states.get(1) is not None


def test_only_stray_snapshots_are_deleted(tmp_path: Path) -> None:
    for offset in (0, 5, 7, 10, 12):
        (tmp_path / f"{offset:020d}.snapshot").write_bytes(b"")
    snapshots = snapshots_in(tmp_path)
    snapshots.delete_strays([5, 10])
    assert list(snapshots.offsets) == [5, 10, 12]
    snapshots.delete_all()
    assert list(tmp_path.iterdir()) == []


def test_every_damage_is_noticed() -> None:
    for size in range(len(WRITTEN_BY_KAFKA)):
        with pytest.raises(CorruptSnapshotError):
            decode_snapshot(WRITTEN_BY_KAFKA[:size])
    for position in range(len(WRITTEN_BY_KAFKA)):
        damaged = bytearray(WRITTEN_BY_KAFKA)
        damaged[position] ^= 0x10
        with pytest.raises(CorruptSnapshotError):
            decode_snapshot(bytes(damaged))
    with pytest.raises(CorruptSnapshotError):
        decode_snapshot(WRITTEN_BY_KAFKA + b"\0")


def test_an_entry_needs_little_memory() -> None:
    entry = ProducerEntry()
    for number in range(100):
        entry.add_batch(number, number, 0, NOW)
    assert len(entry.batches) == 5
