"""Flushing: what has to be on disk before a record counts as flushed.

It also says what a failed sync means.
"""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from kafkapy.storage.disk.errors import StorageError
from kafkapy.storage.disk.shared_sync import SharedSync
from kafkapy.storage.log.log_config import LogConfig
from tests.loop.turned_clock import START_MS
from tests.storage.log_harness import IO_ERROR, Fault, Logs, append, batch, fill, names, offsets


def synced(logs: Logs) -> list[str]:
    """What was synced since the last call, relative to the log directory."""
    root = str(logs.root / logs.dirs[0])
    paths = {path.removeprefix(root).lstrip("/") for path in logs.files.synced}
    logs.files.synced.clear()
    return sorted(paths)


def test_the_first_flush_of_a_new_partition_covers_the_names_of_its_files(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    append(logs.log, batch(b"a"))
    synced(logs)
    logs.log.flush()
    assert synced(logs) == [
        "",
        "events-0",
        "events-0/00000000000000000000.log",
        "events-0/partition.metadata",
    ]
    append(logs.log, batch(b"b"))
    logs.log.flush()
    assert synced(logs) == ["events-0/00000000000000000000.log"]


def test_a_flush_covers_closed_segments_with_their_indexes_and_the_new_names(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=LogConfig(segment_bytes=1000))
    fill(logs.log, 3)
    logs.log.flush()
    synced(logs)
    fill(logs.log, 3)
    logs.log.flush()
    assert synced(logs) == [
        "events-0",
        "events-0/00000000000000000000.index",
        "events-0/00000000000000000000.log",
        "events-0/00000000000000000000.timeindex",
        "events-0/00000000000000000005.log",
        "events-0/00000000000000000005.snapshot",
    ]


@pytest.mark.parametrize(("failure", "raised"), [(MemoryError, StorageError), (RuntimeError, RuntimeError)])
def test_a_flush_that_cannot_be_prepared_leaves_its_files_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[Exception], raised: type[Exception]
) -> None:
    logs = Logs(tmp_path)
    append(logs.log, batch(b"a"))
    synced(logs)
    asked = iter([failure])

    def ask(self: SharedSync) -> int:
        for error in asked:
            raise error
        return original(self)

    original = SharedSync.ask
    monkeypatch.setattr(SharedSync, "ask", ask)
    with pytest.raises(raised):
        logs.log.prepare_flush()
    logs.log.flush()
    assert {"events-0", "events-0/partition.metadata"} < set(synced(logs))


def test_creating_partitions_syncs_nothing(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    synced(logs)
    assert logs.log.log_end_offset == 0
    assert synced(logs) == []


def test_the_flushed_offset_moves_to_the_end_at_the_time_the_flush_was_prepared(tmp_path: Path) -> None:
    log = Logs(tmp_path).log
    append(log, batch(b"a"))
    ticket = log.prepare_flush()
    assert ticket is not None
    append(log, batch(b"b"))
    worker = threading.Thread(target=ticket.run)
    worker.start()
    worker.join()
    assert log.flushed_offset == 0
    log.complete_flush(ticket)
    assert (log.flushed_offset, log.log_end_offset) == (1, 2)


def test_a_log_on_disk_has_nothing_to_flush(tmp_path: Path) -> None:
    log = Logs(tmp_path).log
    append(log, batch(b"a"))
    log.flush()
    assert log.prepare_flush() is None


def test_a_closed_segment_waits_for_a_flush_in_the_background(tmp_path: Path) -> None:
    logs = Logs(tmp_path, durability="os", config=LogConfig(segment_bytes=1000))
    log = logs.log
    fill(log, 3)
    assert not log.has_unflushed_segments
    fill(log, 3)
    assert log.has_unflushed_segments
    log.flush()
    assert not log.has_unflushed_segments
    assert log.flushed_offset == 6


def test_a_truncation_during_a_flush_makes_it_worthless(tmp_path: Path) -> None:
    log = Logs(tmp_path).log
    fill(log, 3)
    ticket = log.prepare_flush()
    assert ticket is not None
    log.truncate_to(1)
    fill(log, 3)
    ticket.run()
    log.complete_flush(ticket)
    assert log.flushed_offset == 0


@pytest.mark.parametrize("what", [".log", "events-0"])
def test_a_failed_sync_takes_the_directory_offline_and_is_not_tried_again(tmp_path: Path, what: str) -> None:
    logs = Logs(tmp_path)
    append(logs.log, batch(b"a"))
    logs.files.faults = [Fault("sync", IO_ERROR, what, times=1)]
    with pytest.raises(StorageError):
        logs.log.flush()
    assert logs.log.flushed_offset == 0
    with pytest.raises(StorageError, match="offline"):
        logs.log.flush()


def test_a_failed_ticket_is_reported_by_the_one_who_ran_it(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    append(log, batch(b"a"))
    logs.files.faults = [Fault("sync", IO_ERROR, ".log", times=1)]
    ticket = log.prepare_flush()
    assert ticket is not None
    with pytest.raises(StorageError) as failed:
        ticket.run()
    assert logs.manager.offline_dirs == []
    log.abort_flush(ticket, failed.value)
    assert logs.manager.offline_dirs == [tmp_path / "data"]
    assert ticket.files == []


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError(), OSError(errno.EMFILE, "no descriptor")])
def test_what_an_aborted_flush_was_to_sync_is_for_the_next_one(tmp_path: Path, error: Exception) -> None:
    logs = Logs(tmp_path, config=LogConfig(segment_bytes=1000))
    log = logs.log
    fill(log, 6)
    ticket = log.prepare_flush()
    assert ticket is not None
    log.abort_flush(ticket, error)
    assert ticket.files == []
    assert log.flushed_offset == 0
    assert logs.manager.offline_dirs == []
    fill(log, 5)
    synced(logs)
    log.flush()
    assert log.flushed_offset == 11
    segments = [f"events-0/{base:020d}" for base in (0, 5, 10)]
    others = ["", "events-0", "events-0/partition.metadata"]
    others += [f"{segments[1]}.snapshot", f"{segments[2]}.log", f"{segments[2]}.snapshot"]
    closed = [f"{segment}.{kind}" for segment in segments[:2] for kind in ("index", "log", "timeindex")]
    assert synced(logs) == sorted(others + closed)


def test_a_segment_that_is_cut_off_during_a_flush_is_not_for_the_next_one(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=LogConfig(segment_bytes=1000))
    log = logs.log
    fill(log, 12)
    ticket = log.prepare_flush()
    assert ticket is not None
    log.truncate_to(3)
    log.abort_flush(ticket, MemoryError())
    synced(logs)
    log.flush()
    assert {Path(name).stem for name in synced(logs) if name.endswith(("log", "index"))} == {f"{0:020d}"}


def test_a_file_that_cannot_be_opened_leaves_everything_to_the_next_flush(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=LogConfig(segment_bytes=1000))
    log = logs.log
    fill(log, 6)
    log.close_files()
    logs.files.faults = [Fault("open", errno.EMFILE, ".timeindex", times=1)]
    with pytest.raises(StorageError):
        log.prepare_flush()
    assert logs.manager.offline_dirs == []
    log.flush()
    assert log.flushed_offset == 6
    assert {"events-0/00000000000000000000.timeindex", "events-0", ""} <= set(synced(logs))


def test_a_deleted_partition_has_nothing_to_flush(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    append(log, batch(b"a"))
    logs.manager.delete(log.topic_partition)
    logs.manager.delete_expired_files(START_MS + 3_600_000)
    assert log.prepare_flush() is None
    assert logs.manager.offline_dirs == []


def test_a_partition_may_be_deleted_while_it_is_flushed(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    append(log, batch(b"a"))
    ticket = log.prepare_flush()
    assert ticket is not None
    logs.manager.delete(log.topic_partition)
    ticket.run()
    log.complete_flush(ticket)


def test_a_clean_stop_syncs_what_is_not_on_disk(tmp_path: Path) -> None:
    logs = Logs(tmp_path, durability="os")
    append(logs.log, batch(b"a"))
    synced(logs)
    logs.stop()
    assert "events-0/00000000000000000000.log" in synced(logs)
    assert names(logs.path) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000001.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]


def test_stopping_again_without_a_write_touches_no_partition(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    append(logs.log, batch(b"a"))
    log = logs.restart()
    before = {name: (logs.path / name).stat().st_mtime_ns for name in names(logs.path)}
    assert offsets(log) == [0]
    logs.restart()
    assert {name: (logs.path / name).stat().st_mtime_ns for name in names(logs.path)} == before
