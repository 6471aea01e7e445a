"""The disk fails or is full at any call, and nothing acknowledged is lost.

No failed sync counts as done.
"""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from kafkapy.virtual.disk_trace import TracingFiles
from tests.crash.hooked_files import HookedFiles
from tests.crash.results import note
from tests.crash.storage_workload import Workload, check_recovered, promised_at

CALLS = int(os.environ.get("KAFKAPY_FAILED_CALLS", "4"))
"""Of each operation and error."""
SEED = int(os.environ.get("KAFKAPY_SEED", str(random.SystemRandom().randrange(10**6))))
STEPS = 150
OPERATIONS = ("open", "create", "write", "truncate", "sync", "sync_directory", "rename", "unlink")


class FailingDisk:
    """Fails the n-th call of an operation, or that and all later ones."""

    def __init__(self, operation: str, code: int, number: int, *, persistent: bool) -> None:
        self._operation = operation
        self._code = code
        self._left = number
        self._persistent = persistent
        self.failed = False

    def __call__(self, operation: str) -> None:
        if operation == self._operation:
            self._left -= 1
            if self._left == 0 or (self._left < 0 and self._persistent):
                self.failed = True
                raise OSError(self._code, os.strerror(self._code))


@pytest.mark.slow
@pytest.mark.parametrize("persistent", [False, True], ids=["once", "from-then-on"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_nothing_acknowledged_is_lost_when_a_call_fails(
    tmp_path: Path, operation: str, code: int, persistent: bool
) -> None:
    chance = random.Random(f"{SEED} {operation} {code} {persistent}")
    calls = _calls_of(operation, tmp_path / "whole", random.Random(SEED))
    for number in sorted(chance.sample(range(1, calls + 1), min(CALLS, calls))):
        root = tmp_path / f"call-{number}"
        root.mkdir()
        disk = FailingDisk(operation, code, number, persistent=persistent)
        files = HookedFiles(root, before=disk)
        workload = Workload(files, random.Random(SEED))
        try:
            workload.run_until_offline(STEPS)
            check_recovered(
                TracingFiles(root), promised_at(workload.promises, len(files.trace)), workload.contents
            )
        except Exception as error:
            raise AssertionError(f"KAFKAPY_SEED={SEED}, call {number} of {calls}: {error!r}") from error
        assert disk.failed
    note("R5", "calls that fail at the storage layer", tried=min(CALLS, calls))


def _calls_of(operation: str, root: Path, chance: random.Random) -> int:
    """How often a workload without failures comes to the operation."""
    root.mkdir()
    counted: list[str] = []
    Workload(HookedFiles(root, before=counted.append), chance).run_until_offline(STEPS)
    return counted.count(operation)
