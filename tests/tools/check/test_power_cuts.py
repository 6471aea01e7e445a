"""After a power cut the check says what the next start does, and calls nothing damaged."""

from __future__ import annotations

import logging
import os
import random
import shutil
from pathlib import Path

import pytest

from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.offline.next_start import NextStart
from kafkapy.tools.check.finding import Severity
from kafkapy.virtual.disk_trace import Disk, TracingFiles
from tests.crash.storage_workload import CONFIG, Workload, load, new_manager
from tests.loop.turned_clock import TurnedClock
from tests.tools.check.directories import findings

STATES = int(os.environ.get("KAFKAPY_CRASH_STATES", "25"))
SEED = int(os.environ.get("KAFKAPY_SEED", str(random.SystemRandom().randrange(10**6))))
STEPS = 150


class KeptLogs(Workload):
    """Neither truncates logs below their high watermarks nor deletes them.

    What is missing then is lost.
    """

    def _truncate(self) -> None:
        """Keep what there is."""

    def _delete(self) -> None:
        """Keep what there is."""


def logs_in(files: FileSystem, directory: Path) -> dict[str, dict[str, bytes]]:
    """The files of each log, by the names of its directory and of the file."""
    return {
        entry.name: {each.name: files.read(each.path) for each in files.scan(entry.path)}
        for entry in files.scan(str(directory))
        if entry.is_dir()
    }


def test_a_power_cut_is_no_damage_and_its_repair_is_known(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    chance = random.Random(SEED)
    (tmp_path / "disk").mkdir()
    traced = TracingFiles(tmp_path / "disk")
    KeptLogs(traced, chance).run(STEPS)
    for number in range(STATES):
        state = f"KAFKAPY_SEED={SEED}, state {number}"
        found = tmp_path / f"state-{number}"
        disk = Disk()
        disk.play(traced.trace[: chance.randrange(len(traced.trace) + 1)])
        disk.lose_power(found, chance)
        for directory in filter(Path.is_dir, found.iterdir()):
            (directory / ".lock").touch()  # whatever is left, it is a log directory
            before = logs_in(FileSystem(), directory)
            start = NextStart(str(directory), TurnedClock(), CONFIG)
            tried = {name: start.load(f"{directory}/{name}") for name in before}
            expected = logs_in(start.files, directory)
            damaged = [each.text() for each in findings(directory) if each.severity is Severity.DAMAGED]
            assert not damaged, (state, damaged)
            assert logs_in(FileSystem(), directory) == before, state
            manager = new_manager(TracingFiles(found))
            load(manager)
            manager.close(clean=False)
            after = logs_in(FileSystem(), directory)
            for name, log in tried.items():
                if log is not None:
                    assert after[name] == expected[name], (state, name)
        shutil.rmtree(found)
