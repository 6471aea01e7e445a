"""Leader epochs on disk.

No flush waits for them, and recovery finds again what a crash took.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.directories.epoch_saves import MANY
from kafkapy.storage.disk.checkpoints import LEADER_EPOCHS, RECOVERY_POINTS, read_leader_epochs, read_offsets
from kafkapy.storage.disk.errors import DiskFullError, StorageError
from kafkapy.storage.log.partition_log import PartitionLog
from tests.storage.log_harness import IO_ERROR, TOPIC_ID, TP, Fault, Logs, append, batch

NO_SPACE = errno.ENOSPC


def write(log: PartitionLog, leader_epoch: int, count: int = 3) -> None:
    """Append batches of a record each, and flush."""
    for _ in range(count):
        append(log, batch(b"a"), leader_epoch=leader_epoch)
    log.flush()
    log.advance_high_watermark(log.log_end_offset)


def recovery_point(logs: Logs) -> int:
    """The one on disk."""
    return read_offsets(logs.files, str(logs.root / "data" / RECOVERY_POINTS)).get(TP, 0)


def saved(logs: Logs) -> list[tuple[int, int]]:
    return read_leader_epochs(logs.files, str(logs.path / LEADER_EPOCHS))


def test_epochs_are_saved_with_the_recovery_points(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    write(logs.log, 1)
    write(logs.log, 4)
    assert saved(logs) == []
    assert logs.log.recovery_point == 0
    logs.save_recovery_points()
    assert saved(logs) == [(1, 0), (4, 3)]
    assert recovery_point(logs) == logs.log.recovery_point == 6


def test_a_crash_before_they_are_saved_takes_none(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    write(logs.log, 1)
    logs.save_recovery_points()
    write(logs.log, 4)
    log = logs.restart(clean=False)
    assert log.leader_epochs.entries == [(1, 0), (4, 3)]
    assert log.recovery_point == 3
    logs.save_recovery_points()
    assert recovery_point(logs) == 6
    assert logs.restart(clean=False).leader_epochs.entries == [(1, 0), (4, 3)]


def test_what_recovery_finds_in_the_file_need_not_be_saved_again(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    write(logs.log, 1)
    logs.save_recovery_points()
    log = logs.restart(clean=False)
    assert not log.leader_epochs.unsaved
    assert log.recovery_point == 3


@pytest.mark.parametrize("clean", [True, False])
def test_epochs_of_deleted_records_do_not_lower_the_recovery_point(tmp_path: Path, clean: bool) -> None:
    logs = Logs(tmp_path)
    write(logs.log, 1)
    write(logs.log, 4)
    logs.save_recovery_points()
    logs.log.advance_log_start_offset(5)
    logs.manager.checkpoint_log_start_offsets()()
    assert logs.log.recovery_point == 6
    log = logs.restart(clean=clean)
    assert log.leader_epochs.entries == [(4, 5)]
    assert log.recovery_point == 6


def test_epochs_that_find_no_room_keep_the_recovery_point_below_them(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    write(logs.log, 1)
    logs.save_recovery_points()
    write(logs.log, 4)
    logs.files.faults = [Fault("write", NO_SPACE, LEADER_EPOCHS)]
    logs.save_recovery_points()
    assert logs.manager.offline_dirs == []
    assert recovery_point(logs) == 3
    log = logs.restart(clean=False)
    assert log.leader_epochs.entries == [(1, 0), (4, 3)]
    logs.files.faults = []
    logs.save_recovery_points()
    assert recovery_point(logs) == 6
    assert saved(logs) == [(1, 0), (4, 3)]


def test_a_change_during_a_save_is_saved_by_the_next(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    write(logs.log, 1)
    save = logs.manager.checkpoint_recovery_points()
    write(logs.log, 4)
    logs.save_recovery_points()
    assert recovery_point(logs) == 0
    save()
    assert saved(logs) == [(1, 0)]
    assert logs.log.recovery_point == 3
    logs.save_recovery_points()
    assert (saved(logs), recovery_point(logs)) == ([(1, 0), (4, 3)], 6)


def test_a_truncation_lowers_what_the_file_is_right_for(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    write(logs.log, 1)
    write(logs.log, 4)
    logs.save_recovery_points()
    logs.log.truncate_to(2)
    write(logs.log, 1)
    write(logs.log, 1)
    assert logs.log.recovery_point <= 3
    assert logs.restart(clean=False).leader_epochs.entries == [(1, 0)]


def written(logs: Logs) -> list[TopicPartition]:
    """So many logs with epochs that their saves share syncs."""
    partitions = [TopicPartition("events", index) for index in range(MANY)]
    for partition in partitions:
        write(logs.manager.create(partition, TOPIC_ID, logs.config, new=True), 7, 1)
    return partitions


def test_the_epochs_of_many_logs_share_two_syncs(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    partitions = written(logs)
    logs.files.synced.clear()
    logs.save_recovery_points()
    assert logs.files.synced_together == [str(tmp_path / "data")] * 2
    assert not [path for path in logs.files.synced if "events" in path]
    for partition in partitions:
        path = tmp_path / "data" / str(partition) / LEADER_EPOCHS
        assert read_leader_epochs(logs.files, str(path)) == [(7, 0)]


def test_a_save_whose_sync_fails_takes_the_directory_offline(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.files.faults = [Fault("sync_file_system", IO_ERROR)]
    written(logs)
    logs.save_recovery_points()
    assert logs.manager.offline_dirs == [tmp_path / "data"]
    assert recovery_point(logs) == 0


def test_the_epochs_of_a_deleted_log_are_nobodys(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    write(logs.log, 1)
    save = logs.manager.checkpoint_recovery_points()
    logs.manager.delete(TP)
    save()
    assert logs.manager.offline_dirs == []


def test_a_full_disk_leaves_a_flush_to_be_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    append(log, batch(b"a"))
    ticket = log.prepare_flush()
    assert ticket is not None
    logs.files.faults = [Fault("open", NO_SPACE, "partition.metadata", times=1)]
    with pytest.raises(DiskFullError) as full:
        ticket.run()
    log.abort_flush(ticket, full.value)
    assert logs.manager.offline_dirs == []
    log.flush()
    assert log.flushed_offset == 1


def test_a_sync_that_finds_no_room_is_a_failed_sync(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    append(logs.log, batch(b"a"))
    logs.files.faults = [Fault("sync", NO_SPACE, ".log", times=1)]
    with pytest.raises(StorageError):
        logs.log.flush()
    assert logs.manager.offline_dirs == [tmp_path / "data"]
