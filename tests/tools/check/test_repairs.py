"""What a check calls repaired, the next start repairs: random damage, a start, a stop, another check."""

from __future__ import annotations

import logging
import os
import random
import shutil
from pathlib import Path

import pytest

from kafkapy.storage.disk.files import StorageError
from kafkapy.storage.disk.log_directory import LogDirectoryError
from kafkapy.tools.check.finding import Severity
from tests.storage.log_harness import TP, Logs, read_bytes
from tests.tools.check.directories import CONFIG, fill, findings, killed, stopped

ROUNDS = int(os.environ.get("KAFKAPY_DAMAGE_ROUNDS", "30"))
# A broker writes it from its metadata, which these logs have none of.
_NOT_HERE = "partition.metadata"


def damage(path: Path, chance: random.Random) -> str:
    """Change one file below `path` at random; what was done."""
    files = sorted(each for each in path.rglob("*") if each.is_file() and each.stat().st_size)
    kinds = sorted({each.suffix or each.name for each in files if each.name not in (_NOT_HERE, ".lock")})
    kind = chance.choice(kinds)
    file = chance.choice([each for each in files if (each.suffix or each.name) == kind])
    data = file.read_bytes()
    at = chance.randrange(len(data))
    how = chance.choice(("flip", "cut", "zeros inside", "zeros behind", "rubbish behind", "delete"))
    if how == "delete":
        file.unlink()
        return f"{how} {file.name}"
    file.write_bytes(
        {
            "flip": data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :],
            "cut": data[:at],
            "zeros inside": data[:at] + bytes(min(64, len(data) - at)) + data[at + 64 :],
            "zeros behind": data + bytes(100),
            "rubbish behind": data + chance.randbytes(70),
        }[how]
    )
    return f"{how} {file.name} at {at}"


def use(root: Path) -> None:
    """Start on the directory, read everything by offset and by time, stop in order."""
    logs = Logs(root, config=CONFIG)
    log = logs.log
    read_bytes(log)
    for timestamp in (0, 1_700_000_000_150, 2**50):
        log.offset_for_timestamp(timestamp)
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
    made = (
        stopped(tmp_path / "made")
        if how == "stopped"
        else killed(tmp_path / "made", flushed=how == "flushed")
    )
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


def test_a_start_leaves_nothing_to_find(tmp_path: Path) -> None:
    path = killed(tmp_path, flushed=False)
    use(tmp_path)
    assert findings(path.parent) == []
    logs = Logs(tmp_path, config=CONFIG)
    assert logs.manager.get(TP) is not None
    fill(logs, 10, first_epoch=4)
    logs.stop()
    assert findings(path.parent) == []
