"""Retention: which segments go, when, and when their files do."""

from __future__ import annotations

from pathlib import Path

from kafkapy.storage.log.log_config import LogConfig
from tests.loop.turned_clock import START_MS
from tests.storage.log_harness import Logs, append, batch, fill, names, offsets

FIVE_A_SEGMENT = {"segment_bytes": 1000, "index_interval_bytes": 200, "file_delete_delay_ms": 1000}


def logs_with(tmp_path: Path, *, step: int = 1000, **config: object) -> Logs:
    """Three segments of 5, 5 and 2 batches (850, 850 and 340 bytes)."""
    logs = Logs(tmp_path, config=LogConfig(**{"retention_ms": -1, **FIVE_A_SEGMENT, **config}))  # type: ignore[arg-type]
    fill(logs.log, 12, step=step)
    return logs


def test_segments_whose_newest_record_is_older_than_retention_ms_go(tmp_path: Path) -> None:
    log = logs_with(tmp_path, retention_ms=1000).log
    assert log.delete_old_segments(START_MS + 5000) == 0
    assert log.delete_old_segments(START_MS + 5001) == 1
    assert (log.log_start_offset, offsets(log)[0]) == (5, 5)
    log.check()


def test_the_active_segment_goes_too_when_it_has_expired(tmp_path: Path) -> None:
    logs = logs_with(tmp_path, retention_ms=1000)
    log = logs.log
    assert log.delete_old_segments(START_MS + 20_000) == 3
    assert (log.log_start_offset, log.log_end_offset, log.size) == (12, 12, 0)
    assert names(logs.path, ".log") == ["00000000000000000012.log"]
    assert log.delete_old_segments(START_MS + 20_000) == 0
    fill(log, 1)
    assert offsets(logs.restart(clean=False)) == [12]


def test_old_segments_go_while_the_log_is_larger_than_retention_bytes(tmp_path: Path) -> None:
    log = logs_with(tmp_path, retention_bytes=1190).log
    assert log.delete_old_segments(START_MS) == 1
    assert log.size == 1190
    assert log.delete_old_segments(START_MS) == 0


def test_a_log_is_never_made_smaller_than_retention_bytes(tmp_path: Path) -> None:
    log = logs_with(tmp_path, retention_bytes=1191).log
    assert log.delete_old_segments(START_MS) == 0


def test_segments_below_the_log_start_offset_go_whatever_the_policy(tmp_path: Path) -> None:
    log = logs_with(tmp_path).log
    log.config = LogConfig(cleanup_policy=frozenset({"compact"}), retention_ms=0, retention_bytes=0)
    assert log.delete_old_segments(START_MS + 10**9) == 0
    log.advance_log_start_offset(9)
    assert log.delete_old_segments(START_MS) == 1
    log.advance_log_start_offset(10)
    assert log.delete_old_segments(START_MS) == 1
    assert offsets(log) == [10, 11]


def test_nothing_at_or_above_the_high_watermark_goes(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=LogConfig(retention_bytes=0, **FIVE_A_SEGMENT))  # type: ignore[arg-type]
    for _ in range(12):
        append(logs.log, batch(b"x" * 100))
    logs.log.advance_high_watermark(9)
    assert logs.log.delete_old_segments(START_MS) == 1
    assert offsets(logs.log)[0] == 5


def test_files_are_renamed_at_once_and_removed_after_the_delay(tmp_path: Path) -> None:
    logs = logs_with(tmp_path, retention_bytes=1190)
    logs.log.delete_old_segments(START_MS)
    assert names(logs.path, ".deleted") == [
        "00000000000000000000.index.deleted",
        "00000000000000000000.log.deleted",
        "00000000000000000000.timeindex.deleted",
    ]
    assert logs.manager.delete_expired_files(START_MS + 999) == 0
    assert logs.manager.delete_expired_files(START_MS + 1000) == 3
    assert names(logs.path, ".deleted") == []
    assert names(logs.path, ".snapshot") == ["00000000000000000005.snapshot", "00000000000000000010.snapshot"]


def test_a_restart_removes_the_files_that_waited_for_their_delay(tmp_path: Path) -> None:
    logs = logs_with(tmp_path, retention_bytes=1190)
    logs.log.delete_old_segments(START_MS)
    log = logs.restart(clean=False)
    assert names(logs.path, ".deleted") == []
    assert offsets(log) == list(range(5, 12))


def test_a_changed_setting_acts_with_the_next_run(tmp_path: Path) -> None:
    log = logs_with(tmp_path).log
    assert log.delete_old_segments(START_MS + 10**12) == 0
    log.config = LogConfig(retention_ms=1)
    assert log.delete_old_segments(START_MS + 10**12) == 3


def test_records_without_time_expire_by_the_age_of_their_file(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=LogConfig(retention_ms=1000))
    append(logs.log, batch(b"x", timestamp=-1))
    logs.log.advance_high_watermark(1)
    written = (logs.path / "00000000000000000000.log").stat().st_mtime_ns // 1_000_000
    assert logs.log.delete_old_segments(written + 1000) == 0
    assert logs.log.delete_old_segments(written + 1001) == 1
