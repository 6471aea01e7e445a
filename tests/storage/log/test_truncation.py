"""Cutting logs at their end and at their start."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.storage.disk.checkpoints import RECOVERY_POINTS, read_offsets
from kafkapy.storage.disk.errors import StorageError
from kafkapy.storage.disk.log_directory import Durability
from kafkapy.storage.log.log_config import LogConfig
from tests.loop.turned_clock import START_MS
from tests.storage.log_harness import IO_ERROR, TP, Fault, Logs, append, batch, fill, names, offsets, search

SEGMENTS_OF_5 = LogConfig(segment_bytes=1000, index_interval_bytes=200)


@pytest.mark.parametrize("offset", range(13))
def test_truncating_removes_everything_from_an_offset_on(tmp_path: Path, offset: int) -> None:
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    log = logs.log
    fill(log, 12)
    assert log.truncate_to(offset) == (offset < 12)
    log.check()
    assert offsets(log) == list(range(offset))
    assert log.high_watermark == log.log_end_offset == offset
    fill(log, 8)
    log.check()
    assert offsets(logs.restart(clean=False)) == list(range(offset + 8))


def test_a_batch_that_holds_the_offset_goes_whole(tmp_path: Path) -> None:
    log = Logs(tmp_path).log
    append(log, batch(b"a"))
    append(log, batch(b"b", b"c", b"d"))
    log.truncate_to(2)
    log.check()
    assert offsets(log) == [0]
    assert log.log_end_offset == 1
    assert append(log, batch(b"e")).first_offset == 1


def test_a_cut_in_a_gap_between_offsets_ends_the_log_behind_its_last_batch(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    for base_offset in (0, 20):
        data = batch(b"x", b"y")
        data[:8] = base_offset.to_bytes(8, "big")
        log.append_as_follower(memoryview(data), now_ms=START_MS)
    log.truncate_to(15)
    log.flush()
    logs.save_recovery_points()
    assert log.log_end_offset == logs.restart(clean=False).log_end_offset == 2


def test_truncating_forgets_the_epochs_and_producers_of_what_goes(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    for sequence in range(4):
        append(log, batch(b"x", producer_id=7, epoch=0, sequence=sequence), leader_epoch=sequence // 2)
    log.truncate_to(2)
    assert log.leader_epochs.entries == [(0, 0)]
    again = append(log, batch(b"y", producer_id=7, epoch=0, sequence=2), leader_epoch=5)
    assert not again.duplicate
    assert log.leader_epochs.entries == [(0, 0), (5, 2)]
    log = logs.restart()
    assert log.leader_epochs.entries == [(0, 0), (5, 2)]


def test_the_recovery_point_moves_before_the_log_is_cut_below_it(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    fill(log, 10)
    log.flush()
    logs.save_recovery_points()
    log.truncate_to(4)
    assert read_offsets(logs.files, str(tmp_path / "data" / RECOVERY_POINTS)).get(TP, 0) <= 4
    assert log.flushed_offset == 4
    assert offsets(logs.restart(clean=False)) == [0, 1, 2, 3]


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_the_recovery_point_is_synced_before_the_log_is_cut_below_it(
    tmp_path: Path, durability: Durability
) -> None:
    """After a power cut, what was cut would be taken for lost otherwise."""
    logs = Logs(tmp_path, durability=durability)
    fill(logs.log, 8)
    logs.log.flush()
    logs.save_recovery_points()
    logs.files.synced.clear()
    logs.files.faults = [Fault("truncate", IO_ERROR, ".log")]
    with pytest.raises(StorageError):
        logs.log.truncate_to(3)
    assert any(Path(path).name.startswith(RECOVERY_POINTS) for path in logs.files.synced)


def test_a_log_can_be_emptied_and_begin_elsewhere(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    log = logs.log
    fill(log, 12)
    log.truncate_fully_and_start_at(100)
    log.check()
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (100, 100, 100)
    assert log.leader_epochs.entries == []
    fill(log, 2)
    for clean in (True, False):
        log = logs.restart(clean=clean)
        assert (log.log_start_offset, offsets(log)) == (100, [100, 101])


def test_truncating_below_the_first_segment_empties_the_log(tmp_path: Path) -> None:
    log = Logs(tmp_path, config=SEGMENTS_OF_5).log
    fill(log, 12)
    log.truncate_fully_and_start_at(100)
    assert log.truncate_to(50)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)


def test_timestamps_and_positions_of_what_was_cut_are_forgotten(tmp_path: Path) -> None:
    log = Logs(tmp_path).log
    fill(log, 5)
    assert search(log, START_MS + 4) is not None
    log.truncate_to(3)
    assert search(log, START_MS + 4) is None
    fill(log, 3, size=300)
    assert offsets(log) == list(range(6))


# --- the start of the log ----------------------------------------------------------------------------------


def test_deleting_records_moves_the_log_start_offset(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    fill(log, 5)
    assert log.advance_log_start_offset(3)
    assert not log.advance_log_start_offset(2)
    assert offsets(log) == [3, 4]
    assert log.leader_epochs.entries == [(0, 3)]
    with pytest.raises(KafkaError) as refused:
        log.read(2, 100, upper_bound=5)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    log.check()


def test_records_above_the_high_watermark_cannot_be_deleted(tmp_path: Path) -> None:
    log = Logs(tmp_path).log
    append(log, batch(b"a"))
    with pytest.raises(KafkaError) as refused:
        log.advance_log_start_offset(1)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("clean", [True, False])
def test_the_log_start_offset_survives_a_restart_once_it_is_checkpointed(tmp_path: Path, clean: bool) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 5)
    logs.log.advance_log_start_offset(3)
    logs.manager.checkpoint_log_start_offsets()()
    log = logs.restart(clean=clean)
    assert (log.log_start_offset, offsets(log)) == (3, [3, 4])


def test_only_log_start_offsets_inside_a_segment_are_checkpointed(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 5)
    logs.manager.checkpoint_log_start_offsets()()
    assert "log-start-offset-checkpoint" not in names(tmp_path / "data")


@pytest.mark.parametrize("offset", [0, 4, 20])
def test_a_log_that_is_emptied_half_way_does_not_look_damaged(tmp_path: Path, offset: int) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 10)
    logs.log.flush()
    logs.save_recovery_points()
    logs.manager.checkpoint_high_watermarks()()
    logs.files.faults = [Fault("create", IO_ERROR, ".log", times=1)]
    with pytest.raises(StorageError):
        logs.log.truncate_fully_and_start_at(offset)
    assert logs.manager.recovery_point_on_disk(logs.log) == 0
    log = logs.restart(clean=False)
    assert log.log_start_offset == log.log_end_offset == 0
    assert not any(segment.damage for segment in log.segments)
