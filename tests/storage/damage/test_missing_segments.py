"""Segments that are gone from the middle of a log.

Their offsets are damaged, unless compaction may have taken them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.records import Record, build_batch
from kafkapy.storage.log.partition_log import PartitionLog
from tests.loop.turned_clock import START_MS
from tests.storage.damage.test_damage import SEGMENTS_OF_5, readable
from tests.storage.log_harness import ColdPages, Logs, fill, offsets

COUNT = 22


def filled(tmp_path: Path) -> Logs:
    """A log of segments with 5 records each, and 2 in the last, all on disk and known to be."""
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    fill(logs.log, COUNT)
    logs.log.flush()
    logs.save_recovery_points()
    logs.manager.checkpoint_high_watermarks()()
    return logs


def remove(logs: Logs, base_offset: int, *suffixes: str) -> None:
    for suffix in suffixes or (".log", ".index", ".timeindex"):
        (logs.path / f"{base_offset:020d}{suffix}").unlink()


def start(logs: Logs) -> PartitionLog:
    logs.manager = logs.new_manager()
    return logs.log


def all_but(*damaged: int) -> tuple[list[int], list[int]]:
    return [offset for offset in range(COUNT) if offset not in damaged], list(damaged)


@pytest.mark.parametrize("suffixes", [(".log",), ()])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("missing", [(5,), (15,), (5, 10), (5, 15)])
def test_who_reads_an_offset_of_a_missing_segment_is_told(
    tmp_path: Path,
    suffixes: tuple[str, ...],
    clean: bool,
    missing: tuple[int, ...],
    caplog: pytest.LogCaptureFixture,
) -> None:
    logs = filled(tmp_path)
    if clean:
        logs.stop()
    else:
        logs.crash()
    for base_offset in missing:
        remove(logs, base_offset, *suffixes)
    lost = [offset for base_offset in missing for offset in range(base_offset, base_offset + 5)]
    assert readable(start(logs)) == all_but(*lost)
    assert f"Offsets {missing[0]} to " in caplog.text
    assert readable(logs.restart(clean=clean)) == all_but(*lost)


def test_a_missing_segment_is_noticed_by_a_read_that_has_to_load_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = filled(tmp_path)
    logs.stop()
    remove(logs, 5)
    log = start(logs)
    pages = ColdPages(monkeypatch)
    assert pages.read(log, 4) == 5
    with pytest.raises(KafkaError) as raised:
        pages.read(log, 5)
    assert raised.value.code == ErrorCode.CORRUPT_MESSAGE
    assert readable(log) == all_but(5, 6, 7, 8, 9)


def test_a_segment_that_was_cut_to_nothing_is_missing_though_its_indexes_are_gone(tmp_path: Path) -> None:
    logs = filled(tmp_path)
    logs.stop()
    remove(logs, 5, ".index", ".timeindex")
    (logs.path / f"{5:020d}.log").write_bytes(b"")
    assert readable(start(logs)) == all_but(5, 6, 7, 8, 9)


def test_what_retention_took_is_not_missing(tmp_path: Path) -> None:
    logs = filled(tmp_path)
    logs.log.advance_log_start_offset(12)
    logs.log.delete_old_segments(START_MS)
    assert readable(logs.restart()) == (list(range(12, COUNT)), [])


def test_compaction_may_have_taken_a_segment(tmp_path: Path) -> None:
    logs = filled(tmp_path)
    logs.stop()
    remove(logs, 10)
    log = start(logs)
    log.config = replace(log.config, cleanup_policy=frozenset({"compact"}))
    assert offsets(log) == all_but(10, 11, 12, 13, 14)[0]


def test_a_log_that_was_compacted_once_may_lack_segments(tmp_path: Path) -> None:
    logs = filled(tmp_path)
    logs.log.cleaned_offset = 15
    logs.manager.checkpoint_cleaner_offsets()()
    logs.stop()
    remove(logs, 10)
    log = start(logs)
    assert not log.config.is_compacted
    assert offsets(log) == all_but(10, 11, 12, 13, 14)[0]


def test_a_log_that_lacks_offsets_within_a_segment_may_lack_segments(tmp_path: Path) -> None:
    """Its cleaner's checkpoint is lost, and its topic is not compacted any more."""
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    kept = [0, 1, 3, 4, 20, 21, 22, 24, 40]
    for offset in kept:
        record = Record(-1, START_MS, b"k", (b"%d" % offset).ljust(170, b"."))
        data = build_batch([record], base_offset=offset)
        logs.log.append_as_follower(memoryview(data), now_ms=START_MS)
    logs.log.advance_high_watermark(41)
    assert len(logs.log.segments) > 2
    log = logs.restart()
    assert offsets(log) == kept


def test_a_gap_that_compaction_left_around_a_high_watermark_is_no_damage(tmp_path: Path) -> None:
    """The checkpoint of high watermarks may be older than the compaction.

    It is when a crash comes soon after.
    """
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    for offset in (10, 27, 28):
        data = build_batch([Record(-1, START_MS, b"k", b"v")], base_offset=offset)
        logs.log.append_as_follower(memoryview(data), now_ms=START_MS)
        if offset == 27:
            logs.log.roll()
            logs.log.flush()
            logs.save_recovery_points()
    logs.crash()
    (tmp_path / "data" / "replication-offset-checkpoint").write_text("0\n1\nevents 0 20\n")
    assert offsets(start(logs)) == [10, 27, 28]


def test_an_empty_file_within_the_offsets_of_a_segment_hides_no_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logs = filled(tmp_path)
    logs.stop()
    path = logs.path / f"{7:020d}.log"
    path.write_bytes(b"")
    assert readable(start(logs)) == all_but()
    assert f"Deleting {path}" in caplog.text
    assert not path.exists()


@pytest.mark.parametrize("clean", [True, False])
def test_bytes_before_the_first_batch_of_a_segment_are_not_served(tmp_path: Path, clean: bool) -> None:
    logs = filled(tmp_path)
    if clean:
        logs.stop()
    else:
        logs.crash()
    path = logs.path / f"{5:020d}.log"
    data = path.read_bytes()
    path.write_bytes(data[:41] + data)
    assert readable(start(logs)) == all_but()
