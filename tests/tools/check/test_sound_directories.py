"""A directory that nothing is wrong with has no findings, and is left as it was."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from kafkapy.protocol.records import Record, build_batch
from kafkapy.tools.check.finding import Severity
from tests.loop.turned_clock import START_MS
from tests.storage.cleaning.harness import compact_fully, records_of
from tests.storage.log_harness import Logs, append, batch
from tests.tools.check.directories import CONFIG, checked, files, fill, findings, fingerprint, killed, stopped


def test_a_clean_directory_has_no_findings(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    assert len(files(path, ".log")) > 3
    assert files(path, ".txnindex")
    found, summary = checked(path.parent)
    assert found == []
    assert summary.exit_status == 0
    assert summary.partitions == 1
    assert summary.segments == len(files(path, ".log"))
    assert summary.nbytes == sum(each.stat().st_size for each in files(path, ".log"))


def test_a_killed_broker_leaves_no_findings(tmp_path: Path) -> None:
    assert findings(killed(tmp_path / "a").parent) == []
    assert findings(killed(tmp_path / "b", flushed=False).parent) == []


def test_an_empty_topic_has_no_findings(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=CONFIG)
    assert logs.log.log_end_offset == 0
    logs.crash()
    assert findings(logs.path.parent) == []


def test_a_check_changes_nothing(tmp_path: Path) -> None:
    path = killed(tmp_path)
    before = fingerprint(path.parent)
    checked(path.parent)
    assert fingerprint(path.parent) == before


def test_a_directory_that_nobody_may_write_is_checked(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    for each in (*path.iterdir(), path):
        os.chmod(each, 0o555 if each.is_dir() else 0o444)
    assert findings(path.parent) == []
    os.chmod(path, 0o755)


def test_one_partition_is_checked_with_what_the_checkpoints_say_of_it(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    assert findings(path) == []
    files(path, ".log")[-1].write_bytes(b"")
    assert Severity.DAMAGED in {finding.severity for finding in findings(path)}


def test_a_folder_with_several_log_directories_is_checked(tmp_path: Path) -> None:
    Logs(tmp_path, dirs=("one", "two")).stop()
    _, summary = checked(tmp_path)
    assert summary.exit_status == 0
    assert findings(tmp_path) == []


def test_a_broker_that_runs_is_noticed_and_its_end_left_out(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=CONFIG)
    fill(logs)
    found, summary = checked(logs.path.parent)
    assert summary.live == [str(logs.path.parent)]
    assert found == []
    with files(logs.path, ".log")[-1].open("ab") as file:
        file.write(bytes(40))  # it is writing a batch
    found, summary = checked(logs.path.parent)
    assert found == []
    logs.crash()
    found, summary = checked(logs.path.parent)
    assert summary.live == []
    assert [finding.severity for finding in found] == [Severity.REPAIRED]


def test_offsets_that_compaction_took_are_no_damage(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=CONFIG)
    fill(logs)
    logs.stop()
    second = files(logs.path, ".log")[1]
    for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
        second.with_suffix(suffix).unlink(missing_ok=True)
    assert severities_of(logs.path.parent) == {Severity.DAMAGED}
    (logs.path.parent / "cleaner-offset-checkpoint").write_text("0\n1\nevents 0 60\n")
    assert severities_of(logs.path.parent) == set()


@pytest.mark.parametrize("stop", ["clean", "killed"])
def test_a_compacted_log_has_no_findings(tmp_path: Path, stop: str) -> None:
    config = replace(CONFIG, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)
    logs = Logs(tmp_path, config=config)
    for turn in range(6):
        for number in range(40):
            key = b"key %d" % (number % 7)
            value = None if number % 13 == 5 else b"turn %d" % turn
            record = Record(timestamp=START_MS + turn * 100 + number, key=key, value=value)
            append(logs.log, build_batch([record, Record(timestamp=START_MS, key=b"other", value=b"x")]))
        compact_fully(logs.manager, logs.log)
    batches = len(records_of(logs.log))
    assert batches < 100
    if stop == "clean":
        logs.stop()
    else:
        logs.crash()
    found = [each.text() for each in findings(logs.path.parent) if not each.path.endswith(".deleted")]
    assert found == []


def test_epochs_go_with_deleted_records_before_the_log_start_offset_is_written(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=CONFIG)
    fill(logs)
    logs.log.flush()
    logs.save_recovery_points()
    logs.log.advance_log_start_offset(30)
    append(logs.log, batch(b"x"), leader_epoch=7)
    logs.log.flush()
    logs.save_recovery_points()
    logs.crash()
    assert "\n0 30\n" in (logs.path / "leader-epoch-checkpoint").read_text()
    assert severities_of(logs.path.parent) == set()


def severities_of(path: Path) -> set[Severity]:
    return {finding.severity for finding in findings(path)}
