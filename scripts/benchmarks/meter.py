"""What a process costs: CPU seconds and memory, from /proc.

`/proc/<pid>/stat` counts all threads of the process, in ticks of usually 10 ms.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import NamedTuple

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """Of a stretch of time: wall-clock seconds, and the server's CPU seconds."""

    seconds: float
    cpu_seconds: float


class Meter:
    """Reads one process, or the sum of several."""

    def __init__(self, *pids: int) -> None:
        self._folders = [Path("/proc", str(pid)) for pid in pids]

    def cpu_seconds(self) -> float:
        ticks = 0
        for folder in self._folders:
            fields = _stat(folder)
            user, system = int(fields[11]), int(fields[12])
            ticks += user + system
        return ticks / _TICKS_PER_SECOND

    def resident_mb(self) -> float:
        return self._sum("status", "VmRSS")

    def peak_resident_mb(self) -> float:
        return self._sum("status", "VmHWM")

    def proportional_mb(self) -> float:
        """Memory, of which what several processes share counts once."""
        return self._sum("smaps_rollup", "Pss")

    def _sum(self, file: str, field: str) -> float:
        return sum(_megabytes(folder / file, field) for folder in self._folders)


class FamilyMeter:
    """Reads one process and all its descendants: a Spark driver's JVM and its Python workers."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def cpu_seconds(self) -> float:
        """Of those that run, and of those that ended and were waited for."""
        stats = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has just ended
                stats[int(folder.name)] = _stat(folder)
        family, ticks = [self._pid], 0
        for member in family:
            ticks += sum(map(int, stats[member][11:15]))
            family += [pid for pid, fields in stats.items() if int(fields[1]) == member]
        return ticks / _TICKS_PER_SECOND


def _megabytes(path: Path, field: str) -> float:
    """A field in kB of such a file."""
    for line in path.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024 / 1e6
    raise LookupError(field)


def _stat(folder: Path) -> list[str]:
    """The fields from the third on: the second, the name in brackets, may hold spaces."""
    return (folder / "stat").read_text().rpartition(")")[2].split()


class Stopwatch:
    """`cost()` since it was made."""

    def __init__(self, meter: Meter | FamilyMeter) -> None:
        self._meter = meter
        self._cpu, self._start = meter.cpu_seconds(), time.perf_counter()

    def cost(self) -> Cost:
        seconds = time.perf_counter() - self._start
        return Cost(seconds, self._meter.cpu_seconds() - self._cpu)


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
