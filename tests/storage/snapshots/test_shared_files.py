"""Data directories that share files: no broker changes those of another."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkapy.storage.disk.checkpoints import MetaProperties, read_offsets
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.marker_batch import prepare_marker
from kafkapy.storage.log.markers import TransactionMarker
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.storage.log.validate import AppendOrigin
from kafkapy.storage.snapshots.moment import described, moments_of
from kafkapy.storage.snapshots.running import write_logs
from kafkapy.storage.snapshots.stopped import clear_directory, copy_directory
from tests.loop.turned_clock import START_MS
from tests.storage.log_harness import TP, Logs, append, batch, fill, names, offsets, search

SEGMENTS_OF_5 = LogConfig(segment_bytes=1000, index_interval_bytes=200, file_delete_delay_ms=0)
LARGE_SEGMENTS = LogConfig(segment_bytes=100_000, index_interval_bytes=200)
FILES = FileSystem()


def take(logs: Logs, path: Path) -> Path:
    """A snapshot of the running logs, in the data directory of a new folder."""
    (path / "data").mkdir(parents=True)
    copies = [described(each) for each in moments_of(logs.manager.logs.values())]
    write_logs(copies, str(path / "data"), MetaProperties())
    return path


def contents(path: Path) -> dict[str, str]:
    return {
        str(each.relative_to(path)): hashlib.sha256(each.read_bytes()).hexdigest()
        for each in sorted(path.rglob("*"))
        if each.is_file()
    }


def opened(path: Path, *, clean: bool = True) -> Logs:
    """The logs of a copy of a snapshot, loaded as by a start."""
    copy = path.with_name(f"{path.name}-{os.urandom(4).hex()}")
    (copy / "data").mkdir(parents=True)
    copy_directory(FILES, str(path / "data"), str(copy / "data"))
    if not clean:
        (copy / "data" / ".kafka_cleanshutdown").unlink()
    return Logs(copy, config=SEGMENTS_OF_5)


def shared(path: Path) -> list[str]:
    return sorted(each.name for each in path.rglob("*") if each.is_file() and each.stat().st_nlink > 1)


def test_a_snapshot_has_the_records_of_its_moment_and_none_of_later(tmp_path: Path) -> None:
    logs = Logs(tmp_path / "one", config=SEGMENTS_OF_5)
    fill(logs.log, 12)
    moments = moments_of(logs.manager.logs.values())
    fill(logs.log, 20)
    (tmp_path / "two" / "data").mkdir(parents=True)
    copies = [described(each) for each in moments]
    write_logs(copies, str(tmp_path / "two" / "data"), MetaProperties())

    log = opened(tmp_path / "two").log
    assert offsets(log) == list(range(12))
    assert (log.high_watermark, log.log_end_offset, log.flushed_offset) == (12, 12, 12)
    log.check()


def test_only_closed_segments_are_shared(tmp_path: Path) -> None:
    logs = Logs(tmp_path / "one", config=SEGMENTS_OF_5)
    fill(logs.log, 12)
    taken = take(logs, tmp_path / "two")
    assert [name for name in shared(taken) if name.endswith((".log", "index"))] == [
        f"{base:020d}.{suffix}" for base in (0, 5) for suffix in ("index", "log", "timeindex")
    ]
    assert "00000000000000000010.log" in names(taken / "data" / str(TP), ".log")


def truncate(logs: Logs) -> None:
    logs.log.truncate_to(7)


def truncate_between_segments(logs: Logs) -> None:
    logs.log.truncate_to(5)
    logs.config = LARGE_SEGMENTS


def empty(logs: Logs) -> None:
    logs.log.truncate_fully_and_start_at(0)


def lose_a_segment(logs: Logs) -> None:
    """A crash that lost the second segment: the log ends with the first, which was closed."""
    logs.crash()
    second = names(logs.path, ".log")[1].removesuffix(".log")
    for path in logs.path.glob(f"{second}.*"):
        path.unlink()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", ".kafka_cleanshutdown"):
        (logs.root / "data" / name).unlink(missing_ok=True)
    logs.config = LARGE_SEGMENTS  # so that the first segment is appended to
    logs.manager = logs.new_manager()


def recover(logs: Logs) -> None:
    logs.restart(clean=False)


def damage_the_indexes(logs: Logs) -> None:
    """A start that has to rebuild the indexes of closed segments."""
    logs.stop()
    for path in logs.path.glob("*index"):
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data[:-1] + b"x" if data else b"x")
    logs.manager = logs.new_manager()
    search(logs.log, None)


def delete_all(logs: Logs) -> None:
    logs.log.advance_high_watermark(logs.log.log_end_offset)
    logs.log.advance_log_start_offset(logs.log.log_end_offset)
    logs.log.delete_old_segments(logs.clock.now_ms())
    logs.manager.delete_expired_files(logs.clock.now_ms() + 1)


CHANGES = [
    truncate,
    truncate_between_segments,
    empty,
    lose_a_segment,
    recover,
    damage_the_indexes,
    delete_all,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("whose", ["original", "copy"])
def test_what_becomes_of_one_directory_does_not_reach_the_others(
    tmp_path: Path, change: Callable[[Logs], None], whose: str
) -> None:
    logs = Logs(tmp_path / "one", config=SEGMENTS_OF_5)
    fill(logs.log, 3)
    abort(logs)
    fill(logs.log, 20)
    logs.log.flush()
    taken = take(logs, tmp_path / "two")
    changed = logs if whose == "original" else opened(taken, clean=change is not recover)
    assert shared(taken)
    before = contents(taken)

    change(changed)
    fill(changed.log, 30)
    changed.log.flush()
    changed.stop()

    assert contents(taken) == before
    log = opened(taken).log
    assert log.log_end_offset == 25
    log.check()


def abort(logs: Logs) -> None:
    """An aborted transaction, two offsets long."""
    append(logs.log, batch(b"x", producer_id=7, epoch=0, sequence=0, transactional=True))
    mark_aborted(logs.log, 7)
    logs.log.advance_high_watermark(logs.log.log_end_offset)


def mark_aborted(log: PartitionLog, producer_id: int) -> None:
    marker = prepare_marker(
        producer_id, 0, TransactionMarker(aborted=True, coordinator_epoch=0, timestamp=START_MS)
    )
    log.append_prepared(marker, leader_epoch=0, origin=AppendOrigin.COORDINATOR, now_ms=START_MS)


def test_aborted_transactions_and_producers_are_those_of_the_moment(tmp_path: Path) -> None:
    logs = Logs(tmp_path / "one", config=SEGMENTS_OF_5)
    abort(logs)
    append(logs.log, batch(b"x", producer_id=9, epoch=0, sequence=0))
    moments = moments_of(logs.manager.logs.values())
    append(logs.log, batch(b"x", producer_id=8, epoch=0, sequence=0, transactional=True))
    mark_aborted(logs.log, 8)
    append(logs.log, batch(b"y", producer_id=9, epoch=0, sequence=1))
    (tmp_path / "two" / "data").mkdir(parents=True)
    copies = [described(each) for each in moments]
    write_logs(copies, str(tmp_path / "two" / "data"), MetaProperties())

    log = opened(tmp_path / "two").log
    assert [each.producer_id for each in log.aborted_transactions(0, 100)] == [7]
    assert not append(log, batch(b"y", producer_id=9, epoch=0, sequence=1)).duplicate
    assert append(log, batch(b"y", producer_id=9, epoch=0, sequence=1)).duplicate


def test_a_deleted_start_and_a_compacted_part_are_in_the_checkpoints(tmp_path: Path) -> None:
    logs = Logs(tmp_path / "one", config=SEGMENTS_OF_5)
    fill(logs.log, 12)
    logs.log.advance_log_start_offset(3)
    logs.log.cleaned_offset = 5
    taken = take(logs, tmp_path / "two")
    assert read_offsets(FILES, f"{taken}/data/cleaner-offset-checkpoint") == {TP: 5}
    log = opened(taken).log
    assert (log.log_start_offset, offsets(log)) == (3, list(range(3, 12)))


def test_an_empty_log_is_left_to_the_next_start(tmp_path: Path) -> None:
    logs = Logs(tmp_path / "one", config=SEGMENTS_OF_5)
    logs.log.make_files()
    taken = take(logs, tmp_path / "two")
    assert not (taken / "data" / str(TP)).exists()


def test_only_what_is_a_brokers_is_cleared(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    fill(logs.log, 12)
    logs.stop()
    (tmp_path / "data" / "notes").write_text("mine")
    (tmp_path / "data" / "my-folder").mkdir()
    clear_directory(FILES, str(tmp_path / "data"))
    assert sorted(each.name for each in (tmp_path / "data").iterdir()) == [
        ".kafkapy_reserve",
        ".lock",
        "my-folder",
        "notes",
    ]


def test_a_copy_shares_the_files_that_are_replaced_when_they_change(tmp_path: Path) -> None:
    logs = Logs(tmp_path / "one", config=SEGMENTS_OF_5)
    fill(logs.log, 12)
    logs.manager.close()
    copy = opened(tmp_path / "one")
    assert {"leader-epoch-checkpoint", "partition.metadata"} <= {*shared(tmp_path / "one")}

    before = contents(tmp_path / "one")
    fill(copy.log, 20)
    copy.manager.close()
    assert contents(tmp_path / "one") == before
