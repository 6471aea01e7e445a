"""The next start, tried on a directory, leaves what the start itself leaves: byte for byte."""

from __future__ import annotations

import logging
import os
import random
import shutil
from pathlib import Path

import pytest

from kafkapy.protocol.legacy_records import build_message_set
from kafkapy.protocol.records import Record
from kafkapy.storage.disk.errors import StorageError
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.disk.log_directory import LogDirectoryError
from kafkapy.storage.offline.next_start import NextStart
from kafkapy.storage.recovery.repairs import Emptied, Gap, Truncated
from tests.loop.turned_clock import TurnedClock
from tests.storage.log_harness import TP, Logs, offsets
from tests.tools.check.directories import CONFIG, files, flip, killed, left, partition_line, stopped
from tests.tools.check.random_damage import damage

ROUNDS = int(os.environ.get("KAFKAPY_DAMAGE_ROUNDS", "30"))


def content(file_system: FileSystem, path: Path) -> dict[str, bytes]:
    return {entry.name: file_system.read(entry.path) for entry in file_system.scan(str(path))}


def tried(path: Path) -> NextStart:
    return NextStart(str(path.parent), TurnedClock(), CONFIG)


@pytest.mark.parametrize("how", ["stopped", "flushed", "killed"])
def test_a_start_that_is_tried_does_what_a_start_does(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    chance = random.Random(f"{how} {ROUNDS}")
    path = left(tmp_path / "made", how)
    changed = 0
    for number in range(ROUNDS):
        root = tmp_path / str(number)
        shutil.copytree(path.parent.parent, root)
        there = root / "data" / path.name
        done = [damage(root / "data", chance) for _ in range(chance.choice((1, 3)))]
        if not there.is_dir():
            continue
        before = content(FileSystem(), there)
        start = tried(there)
        log = start.load(str(there))
        assert log is not None
        after = content(start.files, there)
        assert log.names == set(after)
        assert content(FileSystem(), there) == before
        assert {name for name in after if start.files.is_changed(f"{there}/{name}")} == {
            name for name in after if before.get(name) != after[name]
        }
        try:
            logs = Logs(root, config=CONFIG)
        except LogDirectoryError:
            continue  # another cluster's id
        assert content(FileSystem(), there) == after, done
        changed += after != before
        if log.log is None:
            with pytest.raises(StorageError) as refused:
                logs.manager.get(TP)
            assert refused.value.message == log.refusal
            continue
        served = logs.manager.get(TP)
        assert served is not None
        assert log.log is not None
        assert log.log.log_end_offset == served.log_end_offset
        assert log.log.log_start_offset == served.log_start_offset
        assert log.log.leader_epochs.entries == served.leader_epochs.entries
        assert dict(log.log.producers).keys() == dict(served.producers).keys()
        logs.crash()
    assert changed > ROUNDS // 10


def test_a_clean_stop_leaves_nothing_to_do(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    start = tried(path)
    log = start.load(str(path))
    assert log is not None
    assert list(log.repairs) == []
    assert not any(start.files.is_changed(f"{path}/{name}") for name in log.names)
    assert not start.files.exists(f"{path.parent}/.kafka_cleanshutdown")
    assert (path.parent / ".kafka_cleanshutdown").exists()


def test_a_truncation_is_told(tmp_path: Path) -> None:
    path = killed(tmp_path, flushed=False)
    third = files(path, ".log")[2]
    size = third.stat().st_size
    flip(third, 100)
    log = tried(path).load(str(path))
    assert log is not None
    later = len(files(path, ".log")) - 3
    assert list(log.repairs) == [
        Truncated(str(third), 0, size, int(third.name[:20]), later, "the CRC is wrong")
    ]


def test_a_segment_that_is_missing_above_the_recovery_point_is_told(tmp_path: Path) -> None:
    path = killed(tmp_path, flushed=False)
    second, third, *others = files(path, ".log")[1:]
    second.unlink()
    log = tried(path).load(str(path))
    assert log is not None
    assert list(log.repairs) == [
        Gap(str(third), int(third.name[:20]), int(second.name[:20]), 1 + len(others))
    ]


def test_a_log_that_ends_below_its_start_is_told(tmp_path: Path) -> None:
    path = killed(tmp_path, flushed=False)
    (path.parent / "log-start-offset-checkpoint").write_text(partition_line(1000))
    (path.parent / "replication-offset-checkpoint").write_text(partition_line(2000))
    log = tried(path).load(str(path))
    assert log is not None
    assert list(log.repairs) == [Emptied(1000)]


def test_what_no_start_opens_is_left_alone(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    stray = path.parent / f"{path.name}.{'0' * 32}-stray"
    shutil.copytree(path, stray)
    assert tried(path).load(str(stray)) is None


def test_a_log_that_the_start_refuses_leaves_no_file_open(tmp_path: Path) -> None:
    path = killed(tmp_path, flushed=False)
    message = build_message_set([Record(timestamp=1, value=b"old" * 40)], 1)
    files(path, ".log")[-1].write_bytes(message)
    before = os.listdir("/proc/self/fd")
    start = tried(path)
    log = start.load(str(path))
    assert log is not None
    assert log.refusal is not None
    assert "import the directory first" in log.refusal
    assert os.listdir("/proc/self/fd") == before


def test_a_log_that_is_forgotten_is_loaded_anew(tmp_path: Path) -> None:
    path = killed(tmp_path, flushed=False)
    flip(files(path, ".log")[2], 100)
    start = tried(path)
    first = start.load(str(path))
    start.forget(str(path))
    again = start.load(str(path))
    assert first is not None
    assert again is not None
    assert first.repairs == again.repairs
    assert again.log is not None
    assert again.log.log_end_offset == len(offsets(again.log))
