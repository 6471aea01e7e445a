"""`kafkapy serve` that kills itself at the n-th file change, or whose disk fails.

    python -m tests.crash.crash_driver serve [options of kafkapy serve]

KAFKAPY_CRASH_AT is "before:rename:17" or "after:write:17", of the operations in hooked_files.py, or "any" of
them; each change adds a line with its operation to the file KAFKAPY_CRASH_COUNT. Or it is "fail:sync:17":
that sync and all later ones fail with EIO.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from pathlib import Path

import kafkapy.broker.machine
from kafkapy.cli import main
from kafkapy.virtual.disk_trace import Op
from tests.crash.hooked_files import HookedFiles


class DyingFiles(HookedFiles):
    """Ends the process at the given change; keeps no trace."""

    def __init__(self, root: Path, moment: str, operation: str, number: int, counter: Path) -> None:
        super().__init__(root, before=self._count, after=self._done)
        self._moment = moment
        self._operation = operation
        self._number = number
        self._counter = os.open(counter, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._changes = 0

    def _count(self, operation: str) -> None:
        os.write(self._counter, operation.encode() + b"\n")
        if self._operation in ("any", operation):
            self._changes += 1
            if self._moment == "fail" and self._changes >= self._number:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            self._die_if("before")

    def _done(self, operation: str) -> None:
        if self._operation in ("any", operation):
            self._die_if("after")

    def _die_if(self, moment: str) -> None:
        if moment == self._moment and self._changes == self._number:
            os.kill(os.getpid(), signal.SIGKILL)

    def _note(self, *op: object) -> None:
        self.trace: list[Op] = []


def run() -> None:
    """Serve, with files that die."""
    moment, operation, number = os.environ["KAFKAPY_CRASH_AT"].split(":")
    root = Path(sys.argv[sys.argv.index("--data") + 1]).absolute().parent
    files = DyingFiles(root, moment, operation, int(number), Path(os.environ["KAFKAPY_CRASH_COUNT"]))
    setattr(kafkapy.broker.machine, "FileSystem", lambda: files)  # noqa: B010
    main()


if __name__ == "__main__":
    run()
