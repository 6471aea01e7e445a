"""What the next start completes, removes, truncates or refuses is said before it does."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from kafkapy.tools.check.finding import Severity
from tests.tools.check.directories import (
    checked,
    files,
    findings,
    fingerprint,
    flip,
    killed,
    partition_line,
    severities,
    stopped,
)

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
HEX = "0" * 32


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


def swap(path: Path, log: Path) -> list[str]:
    """Give the files of a segment the names that compaction leaves just before its end."""
    swapped = []
    for suffix in SUFFIXES:
        file = log.with_suffix(suffix)
        if file.exists():
            shutil.copy(file, f"{file}.swap")
            swapped.append(f"{file.name}.swap")
    assert path == log.parent
    return swapped


def test_a_swap_that_the_start_completes_is_repaired(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    swapped = swap(path, files(path, ".log")[1])
    before = fingerprint(path)
    found = findings(path.parent)
    assert sorted(Path(each.path).name for each in found) == sorted(swapped)
    assert severities(found) == {Severity.REPAIRED}
    assert fingerprint(path) == before


def test_a_swap_that_the_start_gives_up_is_harmless(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    second = files(path, ".log")[1]
    shutil.copy(second, f"{second}.cleaned")
    file = f"{int(second.name[:20]) + 1:020d}.log.swap"
    shutil.copy(second, path / file)
    found = findings(path.parent)
    assert {Path(each.path).name for each in found} == {f"{second.name}.cleaned", file}
    assert severities(found) == {Severity.HARMLESS}
    assert all(each.remedy == "The next start removes it." for each in found)


def test_a_log_that_the_start_refuses_is_damaged(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    second = files(path, ".log")[1]
    swap(path, second)
    with Path(f"{second}.swap").open("r+b") as file:
        file.write(b"\xff" * 16)
    found = [each for each in findings(path.parent) if each.severity is Severity.DAMAGED]
    assert any("stays offline" in each.what or "stays offline" in each.remedy for each in found)


def test_a_copy_that_the_start_refuses_is_made_anew(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    copy = path.parent / f"copied-0.{HEX}-future"
    shutil.copytree(path, copy)
    (path.parent / "recovery-point-offset-checkpoint").write_text("0\n2\nevents 0 120\ncopied 0 120\n")
    log = files(copy, ".log")[-1]
    log.write_bytes(b"")
    found = [each for each in findings(path.parent) if each.path == str(copy)]
    assert severities(found) == {Severity.HARMLESS, Severity.REPAIRED}
    assert any("made anew" in each.remedy for each in found)


def test_what_was_set_aside_is_not_truncated_by_any_start(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    stray = path.parent / f"old-0.{HEX}-stray"
    shutil.copytree(path, stray)
    flip(files(stray, ".log")[0], 100)
    found = [each for each in findings(path.parent) if each.severity is not Severity.HARMLESS]
    assert [each.path for each in found] == [str(files(stray, ".log")[0])]
    assert "next start" not in found[0].remedy


def test_a_truncation_takes_later_segments_along(tmp_path: Path) -> None:
    path = killed(tmp_path, flushed=False)
    logs = files(path, ".log")
    flip(logs[1], 100)
    [found] = findings(path.parent)
    assert found.severity is Severity.REPAIRED
    assert (found.path, found.position, found.offset) == (str(logs[1]), 0, int(logs[1].name[:20]))
    assert found.what.endswith(f"and {len(logs) - 2} later segments")


def test_a_log_whose_records_were_deleted_begins_anew(tmp_path: Path) -> None:
    path = killed(tmp_path, flushed=False)
    (path.parent / "log-start-offset-checkpoint").write_text(partition_line(1000))
    (path.parent / "replication-offset-checkpoint").write_text(partition_line(1000))
    found = findings(path.parent)
    assert [each.severity for each in found] == [Severity.REPAIRED]
    assert "below the log start offset 1000" in found[0].what


def test_a_wrong_recovery_point_of_a_clean_stop_is_repaired(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    (path.parent / "recovery-point-offset-checkpoint").write_text(partition_line(20))
    [found] = findings(path.parent)
    assert found.severity is Severity.REPAIRED


def test_of_two_logs_the_start_keeps_the_one_that_was_to_replace_the_other(tmp_path: Path) -> None:
    one, two = stopped(tmp_path / "one"), stopped(tmp_path / "two")
    (two / ".kafkapy_replaces").write_text(f"{one}\n")
    found, _ = checked(one.parent, two.parent)
    assert severities(found) == {Severity.REPAIRED}
    assert "replace" in found[0].remedy
