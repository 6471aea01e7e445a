"""What a server process costs: CPU seconds and memory, from /proc.

`/proc/<pid>/stat` counts all threads of the process, in ticks of usually 10 ms.
"""

from __future__ import annotations

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
        # The second field, the name in brackets, may hold spaces.
        fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
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


class Stopwatch:
    """`cost()` since it was made."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._cpu, self._start = meter.cpu_seconds(), time.perf_counter()

    def cost(self) -> Cost:
        seconds = time.perf_counter() - self._start
        return Cost(seconds, self._meter.cpu_seconds() - self._cpu)


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
