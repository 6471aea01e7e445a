"""What all tests share: how pytest-xdist's workers divide them, and that no example is held to a time."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

SPARK_FILES, SPARK_WORKERS = "interop/spark/", 2

settings.register_profile("kafkapy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kafkapy")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files: those with slow tests come first, so that no worker ends long after the others.

    The files of each folder are spread over the run: those of one are all busy, those of another all wait.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    folders: dict[tuple[bool, Path], list[Path]] = {}
    for file in dict.fromkeys(item.path for item in items):
        folders.setdefault((file not in slow, file.parent), []).append(file)
    turns = {
        file: (later, (number + 0.5) / len(files))
        for (later, _), files in folders.items()
        for number, file in enumerate(files)
    }
    items.sort(key=lambda item: turns[item.path])


def pytest_collection_finish() -> None:
    """Keep a million objects, the tests themselves, out of later garbage collections.

    A simulated run ends with one, which takes a quarter of a second with them.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let two workers run the files with Spark: each worker that runs one starts a session and warms it up.

    The others run the other files first, and those two run them last.
    """
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _assign_work_unit(self, node: Any) -> None:
            own = self.nodes.index(node) < SPARK_WORKERS
            for file in self.workqueue:
                if file.startswith(SPARK_FILES) == own:
                    self.workqueue.move_to_end(file, last=False)
                    break
            super()._assign_work_unit(node)

    return Scheduling(config, log) if config.option.dist == "loadfile" else None


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, sched: Any) -> None:
    """Let a file continue after the test that ended its worker: xdist would start with that test again.

    It would also give other workers the files that this worker had finished, and a worker that gets nothing
    to run stands still.
    """
    for file, tests in list(sched.workqueue.items()):
        if crashitem in tests:
            tests[crashitem] = True
        if all(tests.values()):
            del sched.workqueue[file]
