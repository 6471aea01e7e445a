"""A wall clock of its own for one kafkapy, which can jump.

    clock = WallClock(tmp_path / "clock")
    KafkapyProcess(tmp_path, program=clock.program)
    clock.jump(-60)

Only the time of day jumps. The monotonic clock continues, as it does when an administrator or NTP sets the
time. The process is kafkapy with another `time.time` (this module as a program): time namespaces shift no
time of day, and under libfaketime 0.9.10 waits with a timeout take seconds too long. The kernel's time stamps
of files do not jump.
"""

from __future__ import annotations

import struct
import sys
import time
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Final

_SHIFT: Final = struct.Struct("<q")
"""Nanoseconds."""


class WallClock:
    """The clock of a process that runs `program`; `path` is a file for it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._path.write_bytes(_SHIFT.pack(0))

    @property
    def program(self) -> tuple[str, ...]:
        return "-m", "interop.support.wall_clock", str(self._path)

    def jump(self, seconds: float) -> None:
        """Show a time that differs by `seconds` from the machine's."""
        with self._path.open("r+b") as file:
            file.write(_SHIFT.pack(int(seconds * 1e9)))


def _run(path: str) -> None:
    """Be kafkapy, with the time of day that the file says."""
    with open(path, "rb") as file:
        shift = mmap(file.fileno(), _SHIFT.size, access=ACCESS_READ)
    true_time_ns = time.time_ns

    def time_ns() -> int:
        return true_time_ns() + int(_SHIFT.unpack(shift[:])[0])

    time.time_ns = time_ns
    time.time = lambda: time_ns() / 1e9

    from kafkapy.cli import main

    main(prog_name="kafkapy")


if __name__ == "__main__":
    _run(sys.argv.pop(1))
