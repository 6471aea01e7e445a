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
    """Reads one process."""

    def __init__(self, pid: int) -> None:
        self._folder = Path("/proc", str(pid))

    def cpu_seconds(self) -> float:
        fields = _stat(self._folder)
        user, system = int(fields[11]), int(fields[12])
        return (user + system) / _TICKS_PER_SECOND

    def resident_mb(self) -> float:
        return self._status("VmRSS")

    def peak_resident_mb(self) -> float:
        return self._status("VmHWM")

    def _status(self, field: str) -> float:
        for line in (self._folder / "status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == field:
                return int(value.split()[0]) * 1024 / 1e6
        raise LookupError(field)


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
