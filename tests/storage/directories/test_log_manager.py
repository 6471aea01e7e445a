"""The logs of a broker.

Tested are directories, creation, deletion, checkpoints, and what a stop leaves.
"""

from __future__ import annotations

import re
import shutil
from functools import partial
from pathlib import Path

import pytest

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.storage.directories.future_log import FutureLog
from kafkapy.storage.directories.identity import Identity
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.disk.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, read_offsets
from kafkapy.storage.disk.errors import StorageError
from kafkapy.storage.disk.log_directory import LogDirectoryError
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from tests.loop.turned_clock import START_MS, TurnedClock
from tests.storage.descriptors import open_below
from tests.storage.log_harness import (
    AT_THE_END,
    IO_ERROR,
    NO_SPACE,
    TOPIC_ID,
    TP,
    Fault,
    Logs,
    append,
    batch,
    fill,
    names,
    offsets,
)


def manager(*paths: Path) -> LogManager:
    made = LogManager(paths, defaults=LogConfig(), clock=TurnedClock(), durability="os")
    AT_THE_END.append(partial(made.close, clean=False))
    return made


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


# --- directories -------------------------------------------------------------------------------------------


def test_a_new_directory_is_nobodys_until_it_is_loaded(tmp_path: Path) -> None:
    logs = manager(tmp_path / "data")
    assert logs.open() == Identity(None, None)
    logs.load("a-cluster", 3)
    logs.close()
    text = (tmp_path / "data" / "meta.properties").read_text()
    assert text.splitlines()[2:] == ["broker.id=3", "cluster.id=a-cluster", "version=0"]
    assert manager(tmp_path / "data").open() == Identity("a-cluster", 3)


@pytest.mark.parametrize(
    ("cluster", "node", "why"), [("other", 3, "cluster a-cluster"), ("a-cluster", 4, "broker 3")]
)
def test_a_directory_of_another_broker_or_cluster_is_refused(
    tmp_path: Path, cluster: str, node: int, why: str
) -> None:
    first = manager(tmp_path)
    first.open()
    first.load("a-cluster", 3)
    first.close()
    second = manager(tmp_path)
    second.open()
    with pytest.raises(LogDirectoryError, match=f"belongs to {why}"):
        second.load(cluster, node)
    second.close()


def test_directories_of_two_brokers_are_refused(tmp_path: Path) -> None:
    for node in (1, 2):
        one = manager(tmp_path / str(node))
        one.open()
        one.load("a-cluster", node)
        one.close()
    with pytest.raises(LogDirectoryError, match="one broker"):
        manager(tmp_path / "1", tmp_path / "2").open()


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    first = manager(tmp_path)
    first.open()
    with pytest.raises(LogDirectoryError, match="in use"):
        manager(tmp_path).open()
    first.close()
    second = manager(tmp_path)
    second.open()
    second.close()


@pytest.mark.parametrize("content", [b"", b"\xff\xff", b"version=9\n", b"cluster.id=\\u12"])
def test_a_damaged_meta_properties_is_written_anew(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "meta.properties").write_bytes(content)
    logs = manager(tmp_path)
    logs.open()
    logs.load("a-cluster", 1)
    logs.close()
    assert "cluster.id=a-cluster" in (tmp_path / "meta.properties").read_text()


@pytest.mark.parametrize(
    "name",
    [
        "lost+found",
        "kafkapy.sqlite-1x",
        "__cluster_metadata-0",
        "a b-1",
        "topic-01",
        "topic-4294967296000",
        "-0",
    ],
)
def test_directories_that_are_no_logs_are_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    logs = manager(tmp_path)
    logs.open()
    logs.load("a-cluster", 1)
    assert not logs.logs
    logs.close()
    assert list((tmp_path / name).iterdir()) == []


def test_without_a_directory_that_works_the_broker_cannot_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="No log directory can be used"):
        manager(tmp_path / "file").open()


def test_progress_is_reported_for_each_log(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    logs.open()
    logs.load("a-cluster", 1)
    for partition in range(3):
        logs.create(TP._replace(partition=partition), TOPIC_ID, LogConfig())
    logs.close()
    again, seen = manager(tmp_path), list[tuple[int, int]]()
    again.open()
    again.load("a-cluster", 1, lambda done, total: seen.append((done, total)))
    again.close()
    assert seen == [(1, 3), (2, 3), (3, 3)]


# --- creating and deleting ---------------------------------------------------------------------------------


def test_creating_a_partition_again_gives_its_log(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 2)
    again = logs.manager.create(TP, TOPIC_ID, LogConfig(retention_ms=5))
    assert again is logs.log
    assert offsets(again) == [0, 1]


def test_a_log_of_another_topic_of_the_same_name_is_set_aside_and_kept(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 2)
    before = (logs.log.directory / "00000000000000000000.log").read_bytes()
    other = logs.manager.create(TP, bytes(reversed(TOPIC_ID)), LogConfig())
    assert other.log_end_offset == 0
    logs.restart()
    (stray,) = names(tmp_path / "data", "-stray")
    assert (tmp_path / "data" / stray / "00000000000000000000.log").read_bytes() == before
    assert names(tmp_path / "data", "-delete") == []


def test_a_log_whose_directory_is_gone_is_not_made_anew_empty(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 2)
    logs.stop()
    (tmp_path / "data" / "events-0").rename(tmp_path / "elsewhere")
    logs.manager = logs.new_manager()
    with pytest.raises(StorageError, match="put its directory back, or delete the topic"):
        logs.manager.create(TP, TOPIC_ID, LogConfig())
    logs.stop()
    (tmp_path / "elsewhere").rename(tmp_path / "data" / "events-0")
    logs.manager = logs.new_manager()
    assert logs.log.log_end_offset == 2


def test_a_topic_whose_directory_is_gone_can_be_deleted_and_made_anew(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 2)
    logs.stop()
    shutil.rmtree(tmp_path / "data" / "events-0")
    logs.manager = logs.new_manager()
    logs.manager.delete(TP)
    assert logs.manager.create(TP, bytes(reversed(TOPIC_ID)), LogConfig(), new=True).log_end_offset == 0


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_partition_made_again_is_not_taken_for_the_deleted_one_after_a_crash(
    tmp_path: Path, interrupted: bool
) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 2)
    logs.log.flush()
    logs.save_recovery_points()
    logs.manager.checkpoint_high_watermarks()()
    logs.manager.delete(TP)
    if interrupted:  # the controller asks again, though the directory is gone already
        logs.crash()
        logs.manager = logs.new_manager()
        logs.manager.delete(TP)
    logs.manager.sync_deletions()()
    logs.crash()
    logs.manager = logs.new_manager()
    assert logs.manager.create(TP, bytes(reversed(TOPIC_ID)), LogConfig()).log_end_offset == 0


def test_a_partition_is_not_taken_for_the_log_that_was_set_aside_after_a_crash(tmp_path: Path) -> None:
    logs = Logs(tmp_path, dirs=("a", "b"))
    fill(logs.log, 2)
    logs.log.flush()
    logs.save_recovery_points()
    logs.manager.prefer(TP, logs.manager.directories[1])
    logs.manager.create(TP, bytes(reversed(TOPIC_ID)), LogConfig())  # its files are not created yet
    logs.crash()
    logs.manager = logs.new_manager()
    assert logs.manager.create(TP, bytes(reversed(TOPIC_ID)), LogConfig()).log_end_offset == 0


def test_a_deleted_partition_frees_its_name_at_once_and_its_files_after_the_delay(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 2)
    logs.manager.delete(TP)
    assert logs.manager.get(TP) is None
    (left,) = names(tmp_path / "data", "-delete")
    assert re.fullmatch(r"events-0\.[0-9a-f]{32}-delete", left)
    assert logs.log.log_end_offset == 0
    assert logs.manager.delete_expired_files(START_MS + 59_999) == 0
    assert logs.manager.delete_expired_files(START_MS + 60_000) == 1
    assert names(tmp_path / "data", "-delete") == []


def test_a_log_whose_directory_somebody_has_removed_can_be_deleted_and_made_anew(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 2)
    shutil.rmtree(tmp_path / "data" / "events-0")
    logs.manager.delete(TP)
    logs.manager.sync_deletions()()
    assert not logs.manager.offline_dirs
    assert names(tmp_path / "data", "-delete") == []
    assert logs.manager.create(TP, bytes(reversed(TOPIC_ID)), LogConfig(), new=True).log_end_offset == 0


def test_a_log_that_cannot_be_deleted_since_its_disk_is_gone_is_a_failure(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 2)
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    (tmp_path / "data").mkdir()
    with pytest.raises(StorageError, match="renaming"):
        logs.manager.delete(TP)
    assert logs.manager.offline_dirs


def test_a_partition_whose_index_entries_find_no_space_can_be_deleted(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 3)
    logs.log.segments.active.finish()  # as a roll does: the entry is written later
    logs.files.faults.append(Fault("open", NO_SPACE, ".timeindex"))
    logs.manager.delete(TP)
    assert not (tmp_path / "data" / str(TP)).exists()
    assert logs.manager.get(TP) is None
    assert not logs.manager.offline_dirs


def test_a_restart_goes_on_with_a_deletion(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 2)
    logs.manager.delete(TP)
    logs.restart(clean=False)
    assert logs.manager.delete_expired_files(START_MS + 60_000) == 1
    assert names(tmp_path / "data", "-delete") == []


def test_a_new_log_is_not_taken_for_the_deleted_one_after_a_crash(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 10)
    logs.log.flush()
    logs.log.advance_log_start_offset(7)
    for write in (
        logs.manager.checkpoint_recovery_points,
        logs.manager.checkpoint_log_start_offsets,
        logs.manager.checkpoint_high_watermarks,
    ):
        write()()
    logs.manager.delete(TP)
    append(logs.log, batch(b"new"))
    log = logs.restart(clean=False)
    assert (log.log_start_offset, log.high_watermark, offsets(log)) == (0, 0, [0])


def test_recovery_on_a_full_disk_takes_half_of_the_reserve(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 3)
    reserve = tmp_path / "data" / ".kafkapy_reserve"
    before = reserve.stat().st_size
    logs.crash()
    logs.files.faults = [Fault("create", NO_SPACE, ".index", times=1)]
    logs.manager = logs.new_manager()
    assert offsets(logs.log) == [0, 1, 2]
    assert 0 < before == 2 * reserve.stat().st_size


# --- several directories -----------------------------------------------------------------------------------


def test_new_logs_go_where_the_fewest_are(tmp_path: Path) -> None:
    logs = Logs(tmp_path, dirs=("a", "b"))
    for partition in range(4):
        logs.manager.create(TP._replace(partition=partition), TOPIC_ID, LogConfig(), new=True).make_files()
    assert names(tmp_path / "a", "0") + names(tmp_path / "a", "2") == ["events-0", "events-2"]
    assert names(tmp_path / "b", "1") + names(tmp_path / "b", "3") == ["events-1", "events-3"]
    logs.restart()
    assert len(logs.manager.logs) == 4


def test_a_directory_that_fails_takes_only_its_own_partitions_along(tmp_path: Path) -> None:
    logs = Logs(tmp_path, dirs=("a", "b"))
    zero = logs.manager.create(TP, TOPIC_ID, LogConfig(), new=True)
    one = logs.manager.create(TP._replace(partition=1), TOPIC_ID, LogConfig(), new=True)
    logs.files.faults = [Fault("write", IO_ERROR, "a/events-0/00000000000000000000.log", times=1)]
    with pytest.raises(StorageError):
        append(zero, batch(b"x"))
    append(one, batch(b"x"))
    assert logs.manager.offline_dirs == [tmp_path / "a"]
    two = logs.manager.create(TP._replace(partition=2), TOPIC_ID, LogConfig(), new=True)
    assert two.directory.parent == tmp_path / "b"
    logs.stop()
    assert (tmp_path / "b" / ".kafka_cleanshutdown").exists()
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()


def test_a_partition_that_may_be_in_an_offline_directory_is_not_made_elsewhere(tmp_path: Path) -> None:
    logs = Logs(tmp_path, dirs=("a", "b"))
    logs.manager.create(TP, TOPIC_ID, LogConfig(), new=True)
    logs.crash()
    logs.files.faults = [Fault("open", IO_ERROR, "a/events-0/00000000000000000000.log")]
    logs.files.faults += [Fault("write", IO_ERROR, "a/meta.properties")]
    (tmp_path / "a" / "meta.properties").unlink()
    logs.manager = logs.new_manager()
    assert logs.manager.offline_dirs == [tmp_path / "a"]
    with pytest.raises(StorageError, match=r"may be in .*a, which is offline"):
        logs.manager.create(TP, TOPIC_ID, LogConfig())


def test_a_partition_in_two_directories_is_refused(tmp_path: Path) -> None:
    logs = Logs(tmp_path, dirs=("a", "b"))
    fill(logs.log, 1)
    logs.stop()
    (tmp_path / "b" / "events-0").mkdir()
    with pytest.raises(LogDirectoryError, match="in both"):
        logs.new_manager()


# --- checkpoints and stops ---------------------------------------------------------------------------------


def test_recovery_points_and_high_watermarks_are_checkpointed(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 5)
    logs.log.flush()
    append(logs.log, batch(b"x"))
    logs.save_recovery_points()
    logs.manager.checkpoint_high_watermarks()()
    data = str(tmp_path / "data")
    assert read_offsets(logs.files, f"{data}/{RECOVERY_POINTS}") == {TP: 5}
    assert read_offsets(logs.files, f"{data}/{HIGH_WATERMARKS}") == {TP: 5}


def test_an_older_checkpoint_is_not_written_over_a_newer_one(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 5)
    logs.log.flush()
    write = logs.manager.checkpoint_recovery_points()
    logs.log.truncate_to(2)
    write()
    path = str(tmp_path / "data" / RECOVERY_POINTS)
    assert read_offsets(logs.files, path).get(TP, 0) <= 2


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"])
@pytest.mark.parametrize("content", [b"", b"garbage", b"0\n9\nx 0 1\n", b"\xff"])
def test_a_damaged_checkpoint_does_not_keep_the_broker_from_starting(
    tmp_path: Path, name: str, content: bytes
) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 3)
    logs.stop()
    (tmp_path / "data" / name).write_bytes(content)
    logs.manager = logs.new_manager()
    assert offsets(logs.log) == [0, 1, 2]


def test_a_full_disk_keeps_the_old_checkpoint(tmp_path: Path) -> None:
    logs = Logs(tmp_path, durability="os")
    fill(logs.log, 5)
    logs.manager.checkpoint_high_watermarks()()
    fill(logs.log, 5)
    logs.files.faults = [Fault("write", NO_SPACE, HIGH_WATERMARKS)]
    logs.manager.checkpoint_high_watermarks()()
    path = str(tmp_path / "data" / HIGH_WATERMARKS)
    assert read_offsets(logs.files, path) == {TP: 5}
    assert logs.manager.offline_dirs == []


def test_the_mark_of_a_clean_stop_is_gone_as_soon_as_the_broker_runs(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    mark = tmp_path / "data" / ".kafka_cleanshutdown"
    fill(logs.log, 1)
    assert not mark.exists()
    logs.stop()
    assert mark.read_text() == '{"version":0,"brokerEpoch":-1}'
    logs.manager = logs.new_manager()
    assert not mark.exists()


def test_a_damaged_log_makes_the_stop_unclean_and_leaves_no_directory_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 1)

    def damaged(log: PartitionLog) -> None:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{log.topic_partition} is damaged")

    monkeypatch.setattr(PartitionLog, "close", damaged)
    logs.stop()
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    manager(tmp_path / "data").open()


def test_a_log_that_cannot_be_closed_makes_the_stop_unclean(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 1)
    logs.files.faults = [Fault("sync", IO_ERROR, ".log", times=1)]
    logs.stop()
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_a_stop_before_all_logs_are_loaded_is_not_clean(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 1)
    logs.crash()
    half = LogManager([tmp_path / "data"], defaults=LogConfig(), clock=TurnedClock())
    half.open()
    half.close()
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("clean", [False, True])
def test_a_stop_leaves_no_file_open_and_only_a_clean_one_writes(tmp_path: Path, clean: bool) -> None:
    logs = Logs(tmp_path, dirs=("a", "b"), config=LogConfig(index_interval_bytes=100))
    log = logs.log
    fill(log, 20)
    target = next(each for each in logs.manager.directories if each is not log.log_directory)
    move = FutureLog(log, logs.manager.moves.create_copy(TP, target))
    while (piece := move.next_piece()) is not None:
        move.write(piece)
        piece.release()
    before = contents(tmp_path)
    logs.manager.close(clean=clean)
    assert open_below(tmp_path) == []
    assert (contents(tmp_path) != before) is clean
