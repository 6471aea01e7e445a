"""A lack of descriptors or memory in each operation of the storage layer.

Nothing half-done is left, no directory goes offline, and the next try succeeds.
"""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from kafkapy.protocol.control_records import ControlType
from kafkapy.storage.directories.log_loading import Retries
from kafkapy.storage.disk.checkpoints import CLEAN_SHUTDOWN
from kafkapy.storage.disk.errors import (
    ExhaustedError,
    StorageError,
    SyncFailedError,
    is_exhausted,
    what_is_lacking,
)
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from tests.loop.turned_clock import START_MS
from tests.storage.cleaning.harness import put_transaction
from tests.storage.log_harness import (
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
    search,
)

INDEXED = LogConfig(index_interval_bytes=100, segment_index_bytes=800)


def lacking(logs: Logs, operation: str, suffix: str = "", *, times: int = 1) -> None:
    """Let the next calls fail for lack of a descriptor."""
    logs.files.faults = [Fault(operation, errno.EMFILE, suffix, times=times)]


def restarted(tmp_path: Path, config: LogConfig, count: int) -> Logs:
    """A log that was written, and that a new process has not looked at yet."""
    logs = Logs(tmp_path, config=config)
    fill(logs.log, count)
    logs.restart()
    return logs


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS])
def test_what_the_process_lacks_is_no_failure_of_the_disk(code: int) -> None:
    assert is_exhausted(OSError(code, "what the system says"))
    assert not is_exhausted(SyncFailedError(code, "what a sync says")), "pages may be gone"


def test_memory_and_threads_may_be_lacking_too() -> None:
    assert is_exhausted(MemoryError())
    assert is_exhausted(RuntimeError("can't start new thread"))
    assert not is_exhausted(RuntimeError("dictionary changed size during iteration"))
    assert not is_exhausted(OSError(errno.EIO, "a disk"))
    assert "ulimit -u" in what_is_lacking(RuntimeError("can't start new thread"))
    assert "memory" in what_is_lacking(MemoryError())


def test_an_append_that_finds_no_descriptor_is_refused_whole(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    lacking(logs, "open", ".log")
    with pytest.raises(ExhaustedError, match="ulimit -n"):
        append(log, batch(b"x"))
    assert logs.manager.offline_dirs == []
    append(log, batch(b"x"))
    assert offsets(log) == [0]


def test_an_append_that_finds_no_memory_is_refused_whole(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    fill(log, 1)
    logs.files.faults = [Fault("write", None)]
    with pytest.raises(ExhaustedError, match="memory"):
        append(log, batch(b"x"))
    logs.files.faults = []
    assert logs.manager.offline_dirs == []
    append(log, batch(b"x"))
    assert offsets(log) == [0, 1]


def test_a_search_that_finds_no_memory_is_refused(tmp_path: Path) -> None:
    logs = restarted(tmp_path, INDEXED, 20)
    logs.files.faults = [Fault("read", None)]
    with pytest.raises(ExhaustedError, match="memory"):
        search(logs.log, START_MS + 12)
    logs.files.faults = []
    assert search(logs.log, START_MS + 12) is not None


def test_an_index_entry_without_a_descriptor_is_left_out(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=INDEXED)
    log = logs.log
    fill(log, 1)
    lacking(logs, "open", "index", times=2)
    fill(log, 9)
    assert log.segments.active.indexes.offset_index.entries > 0
    log.check()
    assert offsets(log, 5) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize(("operation", "suffix"), [("create", "5.log"), ("create", ".index")])
def test_a_roll_without_descriptors_leaves_the_active_segment(
    tmp_path: Path, operation: str, suffix: str
) -> None:
    logs = Logs(tmp_path, config=LogConfig(segment_bytes=1000))
    log = logs.log
    fill(log, 5)
    log.close_files()
    lacking(logs, operation, suffix)
    with pytest.raises(ExhaustedError):
        log.roll()
    fill(log, 5)
    assert [segment.base_offset for segment in log.segments] == [0, 5]
    log.check()
    assert offsets(logs.restart()) == list(range(10))


def test_a_roll_without_a_descriptor_for_the_producers_goes_on(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=LogConfig(segment_bytes=1000))
    log = logs.log
    fill(log, 5)
    lacking(logs, "write", ".snapshot")
    fill(log, 5)
    assert names(logs.path, ".snapshot") == []
    log.check()


def test_an_abort_marker_is_not_written_before_its_index_is_open(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    lacking(logs, "open", ".txnindex")
    with pytest.raises(ExhaustedError):
        put_transaction(log, b"k", b"v", 0, ControlType.ABORT)
    assert log.log_end_offset == 1, "only the records are there"
    put_transaction(log, b"k", b"w", 1, ControlType.ABORT)
    log.advance_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == log.log_end_offset, "nothing stays open"
    assert [txn.first_offset for txn in log.aborted_transactions(0, 3)] == [0]


def test_aborted_transactions_are_not_passed_over_for_want_of_a_descriptor(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    put_transaction(logs.log, b"k", b"v", 0, ControlType.ABORT)
    log = logs.restart()
    lacking(logs, "open", ".txnindex")
    with pytest.raises(ExhaustedError):
        log.aborted_transactions(0, 2)
    assert len(log.aborted_transactions(0, 2)) == 1


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_indexes_that_are_half_rebuilt_are_rebuilt_again(tmp_path: Path, suffix: str) -> None:
    logs = restarted(tmp_path, replace(INDEXED, segment_bytes=2000), 20)
    log = logs.log
    (logs.path / f"{0:020d}.timeindex").write_bytes(b"garbage")
    lacking(logs, "open", f"{0:020d}{suffix}")
    with pytest.raises(ExhaustedError):
        offsets(log, 8)
    assert offsets(log, 8) == list(range(8, 20))
    assert log.segments.first.indexes.offset_index.entries > 0
    log.check()


def test_a_flush_without_a_descriptor_vouches_for_nothing_and_can_be_tried_again(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    append(log, batch(b"x"))
    ticket = log.prepare_flush()
    assert ticket is not None
    lacking(logs, "sync", "/data")
    with pytest.raises(ExhaustedError):
        ticket.run()
    assert logs.manager.offline_dirs == []
    logs.files.synced.clear()
    ticket.run()
    log.complete_flush(ticket)
    assert log.flushed_offset == 1
    assert str(logs.path) in logs.files.synced


def test_a_flush_that_cannot_open_a_closed_segment_forgets_none(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=LogConfig(segment_bytes=1000))
    log = logs.log
    fill(log, 12)
    log.close_files()
    lacking(logs, "open", "5.timeindex")
    with pytest.raises(ExhaustedError):
        log.prepare_flush()
    log.flush()
    synced = {Path(path).name for path in logs.files.synced}
    assert {f"{base:020d}{suffix}" for base in (0, 5) for suffix in (".log", ".timeindex")} <= synced


def test_the_files_of_a_log_that_cannot_be_made_leave_nothing_in_the_way(tmp_path: Path) -> None:
    class FewDescriptors(FaultyFiles):
        def remove(self, path: str) -> None:
            if os.path.isdir(path) and os.listdir(path):
                raise OSError(errno.EMFILE, "a descriptor for each directory", path)
            super().remove(path)

    logs = Logs(tmp_path, files=FewDescriptors())
    for operation, suffix in (("create", ".log"), ("write", "partition.metadata")):
        lacking(logs, operation, suffix)
        with pytest.raises(ExhaustedError):
            append(logs.log, batch(b"x"))
        assert not logs.path.exists()
    fill(logs.log, 3)
    assert offsets(logs.log) == [0, 1, 2]


def test_a_checkpoint_that_cannot_be_written_is_written_with_the_next(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 3)
    logs.log.flush()
    lacking(logs, "write", "-checkpoint")
    logs.save_recovery_points()
    assert logs.manager.recovery_point_on_disk(logs.log) == 0
    assert logs.manager.offline_dirs == []
    logs.save_recovery_points()
    assert logs.manager.recovery_point_on_disk(logs.log) == 3


def test_a_truncation_whose_checkpoint_cannot_be_written_is_done_at_the_next_try(
    tmp_path: Path,
) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    fill(log, 10)
    log.flush()
    logs.save_recovery_points()
    lacking(logs, "write", "-checkpoint")
    with pytest.raises(ExhaustedError):
        log.truncate_to(4)
    log.truncate_to(4)
    assert logs.manager.recovery_point_on_disk(log) <= 4, (
        "after a crash the truncation must not look like a loss"
    )
    assert offsets(logs.restart(clean=False)) == [0, 1, 2, 3]


@pytest.mark.parametrize("offset", [7, 2, 0])
@pytest.mark.parametrize("operation", ["open", "read", "truncate"])
@pytest.mark.parametrize("goes_on", ["truncate", "append", "flush", "roll", "restart"])
def test_a_truncation_that_stops_half_way_is_completed_first(
    tmp_path: Path, goes_on: str, operation: str, offset: int
) -> None:
    """Otherwise the producers' states would count batches that are gone."""
    log = truncated_half_way(tmp_path, operation, offset)
    if goes_on == "truncate":
        log.truncate_to(offset)
    elif goes_on == "append":
        append(log, batch(b"y"))
    elif goes_on == "flush":
        log.flush()
    elif goes_on == "roll":
        log.roll()
    else:
        log.close()
    assert log.unfinished_truncation is None
    assert log.log_end_offset == offset + (goes_on == "append")
    entry = log.producers.get(7)
    assert (-1 if entry is None else entry.last_sequence) == offset - 1
    log.check()


def truncated_half_way(tmp_path: Path, operation: str, offset: int) -> PartitionLog:
    """A log of 9 batches, whose truncation stopped half way.

    It stopped as late as a lack in this operation can stop it.
    """
    stopped = None
    for after in count():
        logs = Logs(tmp_path / str(after), config=LogConfig(segment_bytes=400))
        for sequence in range(9):
            append(logs.log, batch(b"x" * 90, producer_id=7, epoch=0, sequence=sequence))
        logs.log.flush()
        logs.files.faults = [Fault(operation, errno.EMFILE, after=after, times=1)]
        try:
            logs.log.truncate_to(offset)
        except ExhaustedError:
            assert logs.manager.offline_dirs == []
            stopped = logs.log
        else:
            break
    assert stopped is not None
    assert stopped.unfinished_truncation is not None
    return stopped


def test_deleted_files_are_removed_when_there_are_descriptors_again(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=LogConfig(file_delete_delay_ms=0))
    fill(logs.log, 3)
    logs.manager.delete(TP)
    remove = logs.files.remove

    def no_descriptor(path: str) -> None:
        raise OSError(errno.EMFILE, "Too many open files", path)

    logs.files.remove = no_descriptor  # type: ignore[method-assign]
    assert logs.manager.delete_expired_files(logs.clock.now_ms()) == 0
    logs.files.remove = remove  # type: ignore[method-assign]
    logs.clock.turn_ms(60_000)
    assert logs.manager.delete_expired_files(logs.clock.now_ms()) == 1
    assert names(tmp_path / "data", "-delete") == []


class TestLoading:
    AT_ONCE = Retries(seconds=0)

    def test_a_log_that_finds_no_descriptor_is_loaded_when_there_is_one(self, tmp_path: Path) -> None:
        logs = Logs(tmp_path, retries=self.AT_ONCE)
        fill(logs.log, 3)
        logs.crash()
        lacking(logs, "open", ".log", times=20)
        logs.new_manager()
        assert offsets(logs.log) == [0, 1, 2]

    def test_a_start_without_a_log_ends_and_the_next_one_recovers_it(self, tmp_path: Path) -> None:
        logs = Logs(tmp_path, retries=self.AT_ONCE)
        fill(logs.log, 3)
        with (logs.path / f"{0:020d}.log").open("ab") as file:
            file.write(b"torn")
        logs.crash()
        lacking(logs, "open", ".log", times=1_000)
        with pytest.raises(ExhaustedError):
            logs.new_manager()
        assert not (tmp_path / "data" / CLEAN_SHUTDOWN).exists()
        logs.files.faults.clear()
        assert offsets(logs.restart(clean=False)) == [0, 1, 2]

    @pytest.mark.parametrize(
        ("operation", "suffix"), [("open", ".lock"), ("sync", "data"), ("write", "meta.properties")]
    )
    def test_a_directory_that_cannot_be_read_for_want_of_a_descriptor_ends_the_start(
        self, tmp_path: Path, operation: str, suffix: str
    ) -> None:
        logs = Logs(tmp_path, retries=self.AT_ONCE)
        fill(logs.log, 3)
        (tmp_path / "data" / "meta.properties").unlink()
        logs.crash()
        lacking(logs, operation, suffix)
        with pytest.raises(StorageError) as failed:
            logs.new_manager()
        assert isinstance(failed.value, ExhaustedError)

    def test_recovered_logs_are_not_served_before_they_are_synced(self, tmp_path: Path) -> None:
        class FilesOfFew(FaultyFiles):
            logs_synced_at_once = 1

        logs = Logs(tmp_path, files=FilesOfFew(), retries=self.AT_ONCE)
        fill(logs.log, 3)
        logs.crash()
        lacking(logs, "sync_file_system")
        with pytest.raises(ExhaustedError):
            logs.new_manager()


def test_a_topic_id_that_cannot_be_noted_is_noted_later(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 1)
    logs.stop()
    (logs.path / "partition.metadata").unlink()
    logs.new_manager()
    lacking(logs, "write", "partition.metadata")
    with pytest.raises(ExhaustedError):
        logs.manager.create(TP, TOPIC_ID, logs.config)
    assert logs.manager.create(TP, TOPIC_ID, logs.config).topic_id == TOPIC_ID
