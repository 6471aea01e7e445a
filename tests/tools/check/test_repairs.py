"""What a check calls repaired, the next start repairs.

There is random damage, a start, a stop and another check.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
from pathlib import Path

import pytest

from kafkapy.storage.disk.errors import StorageError
from kafkapy.storage.disk.log_directory import LogDirectoryError
from kafkapy.tools.check.finding import Severity
from tests.storage.log_harness import TP, Logs, read_bytes, search
from tests.tools.check.directories import CONFIG, fill, findings, killed, left, severities
from tests.tools.check.random_damage import damage

ROUNDS = int(os.environ.get("KAFKAPY_DAMAGE_ROUNDS", "30"))


def use(root: Path) -> None:
    """Start on the directory, read everything by offset and by time, stop in order."""
    logs = Logs(root, config=CONFIG)
    log = logs.log
    read_bytes(log)
    for timestamp in (0, 1_700_000_000_150, 2**50):
        search(log, timestamp)
    log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    for segment in log.segments:
        segment.lookup(segment.base_offset)
    logs.stop()


@pytest.mark.parametrize("how", ["stopped", "flushed", "killed"])
def test_what_is_called_repaired_is_repaired(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    chance = random.Random(f"{how} {ROUNDS}")
    made = left(tmp_path / "made", how)
    repaired = 0
    for number in range(ROUNDS):
        root = tmp_path / str(number)
        shutil.copytree(made.parent.parent, root)
        done = damage(root / "data", chance)
        before = findings(root / "data")
        if any(each.severity is Severity.DAMAGED for each in before):
            continue
        repaired += bool(before)
        try:
            use(root)
        except LogDirectoryError:
            continue  # another cluster's id, well-formed: no file tells
        except StorageError as error:
            pytest.fail(f"{done}: {error}; found {[each.text() for each in before]}")
        after = [each.text() for each in findings(root / "data") if each.severity is not Severity.HARMLESS]
        assert not after, (done, [each.text() for each in before])
    assert repaired > ROUNDS // 10


@pytest.mark.parametrize("how", ["stopped", "flushed", "killed"])
def test_what_is_called_damaged_stays_or_is_lost(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    chance = random.Random(f"damaged {how} {ROUNDS}")
    made = left(tmp_path / "made", how)
    for number in range(ROUNDS):
        root = tmp_path / str(number)
        shutil.copytree(made.parent.parent, root)
        done = damage(root / "data", chance)
        before = [each for each in findings(root / "data") if each.severity is Severity.DAMAGED]
        if not before:
            continue
        try:
            logs = Logs(root, config=CONFIG)
            end = logs.log.log_end_offset
            logs.stop()
        except (LogDirectoryError, StorageError):
            continue
        after = severities(findings(root / "data"))
        lost = any(each.offset is not None and each.offset >= end for each in before)
        assert lost or Severity.DAMAGED in after, (done, [each.text() for each in before])


def test_a_start_leaves_nothing_to_find(tmp_path: Path) -> None:
    path = killed(tmp_path, flushed=False)
    use(tmp_path)
    assert findings(path.parent) == []
    logs = Logs(tmp_path, config=CONFIG)
    assert logs.manager.get(TP) is not None
    fill(logs, 10, first_epoch=4)
    logs.stop()
    assert findings(path.parent) == []
