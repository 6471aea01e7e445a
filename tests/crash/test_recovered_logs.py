"""What power cuts and failing disks leave.

Each case was found by chance once, and is put down here by hand.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.storage.disk.errors import StorageError
from kafkapy.storage.log.log_config import LogConfig
from tests.storage.log_harness import NO_SPACE, Fault, Logs, fill, offsets

SEGMENTS_OF_5 = LogConfig(segment_bytes=1000, index_interval_bytes=200, file_delete_delay_ms=0)


def test_a_segment_that_lost_its_end_takes_the_later_ones_with_it(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    fill(logs.log, 12)
    logs.crash()
    first = logs.path / f"{0:020d}.log"
    first.write_bytes(first.read_bytes()[: first.stat().st_size // 5 * 3])
    log = logs.restart(clean=False)
    assert (log.log_end_offset, offsets(log)) == (3, [0, 1, 2])
    log.check()
    fill(log, 5)
    assert offsets(logs.restart(clean=False)) == list(range(8))


def test_a_segment_that_lost_everything_takes_the_later_ones_with_it(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    fill(logs.log, 12)
    logs.crash()
    (logs.path / f"{5:020d}.log").write_bytes(b"")
    log = logs.restart(clean=False)
    assert (log.log_end_offset, offsets(log)) == (5, [0, 1, 2, 3, 4])


def test_the_indexes_of_a_segment_that_ends_at_the_recovery_point_are_built_anew(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    fill(logs.log, 5)
    logs.log.flush()
    logs.save_recovery_points()
    fill(logs.log, 2)
    logs.crash()
    index = logs.path / f"{0:020d}.index"
    index.write_bytes(bytes(index.stat().st_size))
    log = logs.restart(clean=False)
    log.check()
    assert offsets(log) == list(range(7))


def test_an_empty_segment_that_lost_one_of_its_indexes_is_used_again(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    fill(logs.log, 7)
    logs.crash()
    (logs.path / f"{5:020d}.log").write_bytes(b"")
    (logs.path / f"{5:020d}.index").write_bytes(b"\xff" * 800)
    (logs.path / f"{5:020d}.timeindex").unlink(missing_ok=True)
    log = logs.restart(clean=False)
    fill(log, 5)
    log.check()
    assert offsets(log) == list(range(10))


def test_a_segment_that_was_closed_twice_is_forgotten_when_it_is_deleted(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    log = logs.log
    fill(log, 3)
    log.roll()
    log.truncate_to(2)
    fill(log, 1)
    log.roll()
    fill(log, 2)
    log.advance_log_start_offset(4)
    assert log.delete_old_segments(0) == 1
    log.flush()
    assert offsets(log) == [4]


def test_a_truncation_that_stops_half_way_takes_the_directory_offline(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    log = logs.log
    fill(log, 12)
    logs.files.faults.append(Fault("sync", NO_SPACE, suffix=f"{0:020d}.log"))
    with pytest.raises(StorageError):
        log.truncate_to(3)
    assert logs.manager.offline_dirs
    logs.files.faults.clear()
    recovered = logs.restart(clean=False)
    recovered.check()
    assert offsets(recovered) == list(range(recovered.log_end_offset))


def test_a_segment_that_cannot_be_rolled_leaves_no_empty_one_behind(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    log = logs.log
    fill(log, 4)
    logs.files.faults.append(Fault("truncate", NO_SPACE, times=1))
    with pytest.raises(StorageError):
        log.roll()
    fill(log, 4)
    assert offsets(logs.restart()) == list(range(8))
    logs.log.check()


def test_a_checkpoint_that_may_have_been_replaced_is_written_again(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    logs.log.flush()
    logs.save_recovery_points()
    fill(logs.log, 3)
    logs.log.flush()
    logs.files.faults.append(Fault("sync", NO_SPACE, suffix="/data"))
    logs.save_recovery_points()
    logs.files.faults.clear()
    logs.log.truncate_to(0)
    assert offsets(logs.restart(clean=False)) == []
