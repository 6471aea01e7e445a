"""The start after an unclean stop.

Tested are what is read, by how many threads, what is synced and what the log says.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.disk.errors import StorageError
from kafkapy.storage.disk.files import File
from kafkapy.storage.log.log_config import LogConfig
from tests.loop.turned_clock import TurnedClock
from tests.storage.log_harness import (
    IO_ERROR,
    TOPIC_ID,
    TP,
    Fault,
    FaultyFiles,
    Logs,
    append,
    batch,
    fill,
    offsets,
)

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=200, segment_index_bytes=400)


class CountingFiles(FaultyFiles):
    """Notes the names of the files that are read or changed."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_read: dict[str, int] = {}
        self.made: list[str] = []
        self.synced_at_once: list[str] = []

    def _note(self, file: File, nbytes: int) -> None:
        name = Path(self._path(file)).name
        self.bytes_read[name] = self.bytes_read.get(name, 0) + nbytes

    def read_at(self, file: File, nbytes: int, position: int) -> bytes:
        self._note(file, nbytes)
        return super().read_at(file, nbytes, position)

    def read_into(self, file: File, buffer: memoryview, position: int) -> int:
        self._note(file, len(buffer))
        return super().read_into(file, buffer, position)

    def create(self, path: str) -> None:
        self.made.append(Path(path).name)
        super().create(path)

    def sync_file_system(self, path: str) -> None:
        self._raise("sync_file_system", path)
        self.synced_at_once.append(path)


def reopen(logs: Logs, files: FaultyFiles, **settings: int) -> LogManager:
    """Start again after a crash, with other files."""
    logs.crash()
    logs.files = files
    logs.manager = manager = LogManager(
        [logs.root / name for name in logs.dirs],
        defaults=logs.config,
        clock=logs.clock,
        durability="fsync",
        files=files,
        **settings,  # type: ignore[arg-type]
    )
    manager.open()
    manager.load("a-cluster", 1)
    return manager


def partitions(logs: Logs, count: int) -> None:
    for index in range(count):
        tp = TP._replace(partition=index)
        fill(logs.manager.create(tp, TOPIC_ID, logs.config, new=True), 3)


# --- what is read ------------------------------------------------------------------------------------------


def test_only_segments_that_reach_above_the_recovery_point_are_read(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=CONFIG)
    fill(logs.log, 60)
    logs.log.flush()
    logs.save_recovery_points()
    fill(logs.log, 2)
    bases = [segment.base_offset for segment in logs.log.segments]
    assert len(bases) > 4
    files = CountingFiles()
    reopen(logs, files)
    assert offsets(logs.log) == list(range(62))
    again = CountingFiles()
    reopen(logs, again)
    stems = {name.partition(".")[0] for name in again.bytes_read if not name.startswith(".")}
    rebuilt = {name.partition(".")[0] for name in again.made if name.endswith("index")}
    assert stems <= {f"{base:020d}" for base in bases[-2:]}
    assert rebuilt <= stems


def test_after_a_clean_stop_no_closed_segment_is_read(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=CONFIG)
    fill(logs.log, 60)
    bases = [segment.base_offset for segment in logs.log.segments]
    logs.stop()
    files = CountingFiles()
    logs.files = files
    logs.manager = logs.new_manager()
    read = {name for name in files.bytes_read if name.endswith(".log")}
    assert read <= {f"{bases[-1]:020d}.log"}
    assert [name for name in files.made if name.endswith("index")] == []
    assert offsets(logs.log) == list(range(60))


# --- by how many threads -----------------------------------------------------------------------------------


@dataclass
class Meeting:
    """Loads of so many logs have to be under way at once."""

    parties: int
    seen: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.barrier = threading.Barrier(self.parties, timeout=10)

    def arrive(self) -> None:
        thread = threading.get_ident()
        if thread not in self.seen:
            self.seen.add(thread)
            self.barrier.wait()


def test_each_directory_has_its_own_recovery_threads(tmp_path: Path) -> None:
    logs = Logs(tmp_path, dirs=("a", "b"))
    partitions(logs, 12)
    meeting = Meeting(6)

    class MeetingFiles(FaultyFiles):
        def scan(self, path: str) -> list[object]:  # type: ignore[override]
            if "events" in path:
                meeting.arrive()
            return super().scan(path)  # type: ignore[return-value]

    manager = reopen(logs, MeetingFiles(), recovery_threads_per_dir=3)
    assert len(manager.logs) == 12
    assert len(meeting.seen) == 6


# --- what is synced ----------------------------------------------------------------------------------------


class FilesOfFew(CountingFiles):
    """A file system on which five logs are many."""

    logs_synced_at_once = 5


def test_many_recovered_logs_are_synced_at_once(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    partitions(logs, 5)
    files = FilesOfFew()
    reopen(logs, files)
    assert files.synced_at_once == [str(tmp_path / "data")]
    assert [path for path in files.synced if path.endswith(".log")] == []
    assert all(log.flushed_offset == 3 for log in logs.manager.logs.values())
    append(logs.log, batch(b"x"))
    logs.log.flush()
    assert [Path(path).name for path in files.synced if path.endswith(".log")] == [f"{0:020d}.log"]


def test_many_logs_are_synced_at_once_when_they_are_closed(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    partitions(logs, 5)
    files = FilesOfFew()
    reopen(logs, files)
    for log in logs.manager.logs.values():
        append(log, batch(b"x", producer_id=4, epoch=0, sequence=0), leader_epoch=2)
    files.synced.clear()
    files.synced_at_once.clear()
    logs.stop()
    data = tmp_path / "data"
    # Twice for the leader epochs, before and after their renames, and once for all else.
    assert files.synced_at_once == [str(data)] * 3
    assert [path for path in files.synced if "events" in path] == []
    assert (data / ".kafka_cleanshutdown").exists()
    logs.manager = logs.new_manager()
    assert offsets(logs.log) == list(range(4))
    assert logs.log.leader_epochs.latest_epoch == 2
    assert append(logs.log, batch(b"x", producer_id=4, epoch=0, sequence=0)).duplicate


def test_a_stop_whose_sync_fails_is_not_clean(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    partitions(logs, 5)
    files = FilesOfFew()
    reopen(logs, files)
    files.faults = [Fault("sync_file_system", IO_ERROR)]
    logs.stop()
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_a_file_system_that_cannot_be_synced_is_offline(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    partitions(logs, 5)
    files = FilesOfFew()
    files.faults = [Fault("sync_file_system", IO_ERROR)]
    with pytest.raises(StorageError):
        reopen(logs, files)


def test_a_real_file_system_can_be_synced(tmp_path: Path) -> None:
    FaultyFiles().sync_file_system(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        FaultyFiles().sync_file_system(str(tmp_path / "nowhere"))


# --- what the log says -------------------------------------------------------------------------------------


def test_progress_is_logged_every_few_seconds(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Passing(TurnedClock):
        def now_ms(self) -> int:
            self.turn_ms(200)
            return super().now_ms()

    logs = Logs(tmp_path)
    partitions(logs, 40)
    logs.clock = Passing()
    caplog.set_level(logging.INFO)
    reopen(logs, FaultyFiles())
    told = [record.getMessage() for record in caplog.records if " logs" in record.getMessage()]
    assert told[0] == f"Loading 40 logs from {tmp_path}/data after an unclean stop: recovering"
    assert "of 40 logs" in told[1]
    assert told[-1].startswith("Loaded 40 logs in ")
    assert 3 <= len(told) <= 12
