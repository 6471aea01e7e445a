"""What happens during a pass of compaction, and what stops it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kafkapy.storage.cleaning.task import CleaningAbortedError
from tests.loop.turned_clock import START_MS
from tests.storage.cleaning.harness import (
    COMPACT,
    compact,
    compact_fully,
    compacted,
    fill,
)
from tests.storage.log_harness import IO_ERROR, TP, Fault, Logs, names, offsets


@pytest.mark.parametrize("change", ["truncate", "truncate all", "delete", "abandon"])
def test_a_change_of_the_log_stops_compaction_without_a_trace(tmp_path: Path, change: str) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 30)
    logs.log.roll()
    log = logs.log

    def happen() -> None:
        assert names(logs.path, ".swap")
        if change == "truncate":
            log.truncate_to(17)
        elif change == "truncate all":
            log.truncate_fully_and_start_at(100)
        elif change == "delete":
            logs.manager.delete(TP)
        else:
            log.stop_cleaning()

    with pytest.raises(CleaningAbortedError):
        compact(logs.manager, log, before_swap=happen)
    folder = Path(log.path)
    assert not [name for name in names(folder) if name.endswith((".cleaned", ".swap"))]
    if change == "truncate":
        assert offsets(log) == list(range(17))
    elif change == "abandon":
        assert offsets(log) == list(range(30))
    if change != "delete":
        log.check()
        compact_fully(logs.manager, log)


def test_a_new_topic_of_the_same_name_is_not_touched_by_the_pass_over_the_old_one(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 30)
    logs.log.roll()

    def recreate() -> None:
        logs.manager.delete(TP)
        fill(logs.log, 4, keys=4)

    with pytest.raises(CleaningAbortedError):
        compact(logs.manager, logs.log, before_swap=recreate)
    assert offsets(logs.log) == [0, 1, 2, 3]
    assert not [name for name in names(logs.path) if name.endswith((".cleaned", ".swap"))]


def test_a_log_that_moves_to_another_directory_is_not_compacted_meanwhile(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=COMPACT, dirs=("data", "other"))
    fill(logs.log, 30)
    logs.log.roll()
    log = logs.log
    other = next(each for each in logs.manager.directories if each is not log.log_directory)

    def move() -> None:
        logs.manager.moves.create_copy(TP, other)

    with pytest.raises(CleaningAbortedError):
        compact(logs.manager, log, before_swap=move)
    assert offsets(log) == list(range(30))


@pytest.mark.parametrize("operation", ["sync", "rename", "write"])
def test_a_disk_that_fails_during_a_pass_is_found_out_and_loses_nothing(
    tmp_path: Path, operation: str
) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 30)
    logs.log.roll()
    logs.log.flush()
    logs.save_recovery_points()
    suffix = ".swap" if operation == "rename" else ".cleaned"
    logs.files.faults.append(Fault(operation, IO_ERROR, suffix))
    with pytest.raises(OSError, match=r"\[Errno 5\]"):
        compact(logs.manager, logs.log)
    assert offsets(logs.log) == list(range(30))
    logs.files.faults.clear()
    compact_fully(logs.manager, logs.log)
    assert offsets(logs.log) == [27, 28, 29]


def test_a_gap_that_apache_kafka_left_between_segments_is_no_loss(tmp_path: Path) -> None:
    for cleaner_offset, expected in ((10, [0, 1, 2, 3, 4, 10, 11]), (9, [0, 1, 2, 3, 4])):
        logs = compacted(tmp_path / str(cleaner_offset))
        fill(logs.log, 5)
        logs.log.roll()
        fill(logs.log, 5)
        logs.log.roll()
        fill(logs.log, 2)
        logs.crash()
        for path in logs.path.glob("00000000000000000005.*"):
            path.unlink()
        data = logs.path.parent
        (data / "cleaner-offset-checkpoint").write_text(f"0\n1\nevents 0 {cleaner_offset}\n")
        logs.manager = logs.new_manager()
        assert offsets(logs.log) == expected
        logs.crash()


def test_the_log_start_offset_may_move_during_a_pass(tmp_path: Path) -> None:
    logs = compacted(tmp_path, replace(COMPACT, cleanup_policy=frozenset({"compact", "delete"})))
    fill(logs.log, 30)
    logs.log.roll()

    def move() -> None:
        logs.log.advance_log_start_offset(28)

    compact(logs.manager, logs.log, before_swap=move)
    assert offsets(logs.log, 28) == [28, 29]
    logs.log.delete_old_segments(START_MS)
    logs.log.check()


def test_appends_and_rolls_go_on_during_a_pass(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 30)
    logs.log.roll()
    compact(logs.manager, logs.log, before_swap=lambda: fill(logs.log, 12, keys=12))
    found = offsets(logs.log)
    assert found[:3] == [27, 28, 29]
    assert found[-1] == logs.log.log_end_offset - 1
    logs.log.check()
