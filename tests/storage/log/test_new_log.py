"""A new log before and while it gets its files."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.disk.errors import DiskFullError, StorageError
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.new_log import make_files
from kafkapy.storage.log.validate import AppendOrigin
from tests.storage.log_harness import (
    IO_ERROR,
    NO_SPACE,
    TOPIC_ID,
    TP,
    Fault,
    FaultyFiles,
    Logs,
    append,
    batch,
    fill,
    names,
    offsets,
    read_bytes,
    records_in,
    search,
    values,
)

LOG_FILE = "00000000000000000000.log"


def test_a_new_log_has_no_files_and_can_be_read(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    assert logs.manager.get(TP) is log
    assert (log.topic_id, log.log_start_offset, log.log_end_offset, log.size) == (TOPIC_ID, 0, 0, 0)
    assert log.read(0, 1000, upper_bound=0) is None
    assert search(log, 0) is None
    assert search(log, None) is None
    assert log.delete_old_segments(2**62) == 0
    logs.save_recovery_points()
    assert not logs.path.exists()


def test_an_append_makes_the_files_of_a_new_log(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 1)
    assert names(logs.path) == [LOG_FILE, "partition.metadata"]
    assert (logs.path / "partition.metadata").read_text() == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    log = logs.restart(clean=False)
    assert (log.topic_id, offsets(log)) == (TOPIC_ID, [0])


def test_the_names_of_a_new_log_are_on_disk_before_its_records_count_as_flushed(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 1)
    logs.log.flush()
    synced = {path.removeprefix(f"{tmp_path}/data") for path in logs.files.synced}
    assert synced >= {"", "/events-0", f"/events-0/{LOG_FILE}"}


def test_a_log_that_a_crash_left_without_files_is_made_anew(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    assert logs.log.new_files is not None
    log = logs.restart(clean=False)
    fill(log, 2)
    assert offsets(log) == [0, 1]


def test_a_stop_makes_the_files_that_are_missing(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    assert logs.log.new_files is not None
    logs.stop()
    assert LOG_FILE in names(logs.path)
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_a_stop_is_clean_though_there_is_no_room_for_files(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    other = TopicPartition("other", 0)
    fill(logs.manager.create(other, TOPIC_ID, LogConfig(), new=True), 3)
    assert logs.log.new_files is not None
    logs.files.faults = [Fault("create", NO_SPACE, f"events-0/{LOG_FILE}")]
    logs.stop()
    assert not logs.path.exists()
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_an_append_that_finds_no_room_for_the_files_leaves_nothing_and_the_next_succeeds(
    tmp_path: Path,
) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    logs.files.faults = [
        Fault("write", NO_SPACE, "partition.metadata", times=1),
        Fault("create", NO_SPACE, LOG_FILE, after=1, times=1),
    ]
    for _ in range(2):
        with pytest.raises(DiskFullError):
            append(log, batch(b"x"))
        assert not logs.path.exists()
    assert append(log, batch(b"x")).first_offset == 0
    assert logs.manager.offline_dirs == []


def test_a_coordinator_s_append_takes_half_of_the_reserve_for_files(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    reserve = tmp_path / "data" / ".kafkapy_reserve"
    log = logs.log
    logs.log.log_directory.space.admit(1, logs.clock.now_ms())
    whole = reserve.stat().st_size
    logs.files.faults = [Fault("create", NO_SPACE, LOG_FILE, times=1)]
    append(log, batch(b"x"), origin=AppendOrigin.COORDINATOR)
    assert values(records_in(read_bytes(log))) == [b"x"]
    assert reserve.stat().st_size == whole // 2


def test_the_topic_id_of_a_log_without_one_takes_the_reserve(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    append(logs.log, batch(b"x"))
    logs.log.log_directory.space.admit(1, logs.clock.now_ms())
    logs.stop()
    (logs.path / "partition.metadata").unlink()
    logs.manager = logs.new_manager()
    reserve = tmp_path / "data" / ".kafkapy_reserve"
    whole = reserve.stat().st_size
    assert whole > 0
    logs.files.faults = [Fault("rename", NO_SPACE, "partition.metadata", times=1)]
    assert logs.manager.create(TP, TOPIC_ID, LogConfig()).topic_id == TOPIC_ID
    assert reserve.stat().st_size == whole // 2


def test_a_disk_that_fails_at_the_files_of_a_log_goes_offline(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    logs.files.faults = [Fault("create", IO_ERROR, LOG_FILE)]
    with pytest.raises(StorageError):
        append(log, batch(b"x"))
    assert logs.manager.offline_dirs == [tmp_path / "data"]


def test_a_directory_in_the_way_is_named_and_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    logs.path.mkdir()
    (logs.path / "precious").touch()
    assert make_files([log]) == ([log], None)
    assert "events-0 is in the way: remove it" in caplog.text
    with pytest.raises(KafkaError, match="in the way"):
        append(log, batch(b"x"))
    assert names(logs.path) == ["precious"]
    assert logs.manager.offline_dirs == []
    (logs.path / "precious").unlink()
    logs.path.rmdir()
    append(log, batch(b"x"))


def test_a_log_that_is_deleted_before_it_has_files_leaves_no_trace(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    logs.manager.delete(TP)
    make_files([log])
    assert [name for name in names(tmp_path / "data") if name.startswith("events")] == []
    assert logs.manager.without_files(10) == []
    fill(logs.log, 1)
    assert offsets(logs.log) == [0]


class HaltingFiles(FaultyFiles):
    """Halts where the files of a log are made."""

    def __init__(self) -> None:
        super().__init__()
        self.making, self.go_on = threading.Event(), threading.Event()

    def create(self, path: str) -> None:
        if path.endswith(LOG_FILE):
            self.making.set()
            assert self.go_on.wait(30)
        super().create(path)


def test_a_log_may_be_deleted_while_its_files_are_made(tmp_path: Path) -> None:
    files = HaltingFiles()
    logs = Logs(tmp_path, files=files)
    maker = threading.Thread(target=make_files, args=([logs.log],))
    maker.start()
    assert files.making.wait(30)
    deleter = threading.Thread(target=logs.manager.delete, args=(TP,))
    deleter.start()
    files.go_on.set()
    maker.join()
    deleter.join()
    (left,) = (name for name in names(tmp_path / "data") if name.startswith("events"))
    assert left.endswith("-delete")


def test_a_preallocated_log_has_its_size_from_the_start(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=LogConfig(preallocate=True, segment_bytes=100_000))
    make_files([logs.log])
    assert (logs.path / LOG_FILE).stat().st_size == 100_000
    fill(logs.log, 2)
    logs.stop()
    assert (logs.path / LOG_FILE).stat().st_size < 1000
    logs.manager = logs.new_manager()
    assert offsets(logs.log) == [0, 1]


def test_the_copy_of_a_log_has_its_files_at_once(tmp_path: Path) -> None:
    logs = Logs(tmp_path, dirs=("a", "b"))
    log = logs.log
    target = next(each for each in logs.manager.directories if each is not log.log_directory)
    copy = logs.manager.moves.create_copy(TP, target)
    assert copy.new_files is None
    assert len(names(tmp_path / "b", "-future")) == 1
    logs.manager.moves.delete_copy(TP)
    assert names(tmp_path / "b", "-future") == []
    assert not logs.path.exists()
