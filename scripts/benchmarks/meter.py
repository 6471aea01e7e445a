"""What a process costs: CPU seconds and memory, of all its threads."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import psutil

_SCHEDULED: Final = 2
"""With a process id it makes the clock of the process (clock_getcpuclockid(3))."""


class Cost(NamedTuple):
    """Of a stretch of time: wall-clock seconds, and the server's CPU seconds."""

    seconds: float
    cpu_seconds: float


class Meter:
    """Reads one process, or the sum of several.

    With `descendants` those count too, also those that ended and were waited for: the Python workers of a
    Spark driver's JVM.
    """

    def __init__(self, *pids: int, descendants: bool = False) -> None:
        self._processes = [psutil.Process(pid) for pid in pids]
        self._descendants = descendants

    def cpu_seconds(self) -> float:
        """To the nanosecond; with `descendants` in ticks of the kernel, usually of 10 ms."""
        if not self._descendants:
            return sum(time.clock_gettime(~process.pid << 3 | _SCHEDULED) for process in self._processes)
        family = [
            member for process in self._processes for member in (process, *process.children(recursive=True))
        ]
        return sum(sum(member.cpu_times()[:4]) for member in family)

    def resident_mb(self) -> float:
        return self._sum("status", "VmRSS")

    def peak_resident_mb(self) -> float:
        return self._sum("status", "VmHWM")

    def proportional_mb(self) -> float:
        """Memory, of which what several processes share counts once."""
        return self._sum("smaps_rollup", "Pss")

    def _sum(self, file: str, field: str) -> float:
        return sum(_megabytes(Path(f"/proc/{process.pid}/{file}"), field) for process in self._processes)


def _megabytes(path: Path, field: str) -> float:
    """A field in kB of such a file (proc(5))."""
    for line in path.read_text().splitlines():
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


def percentiles(times: Sequence[float], when: str = "") -> dict[str, float]:
    """The p50 and the p99 of seconds, in milliseconds; `when` ends their names."""
    ordered = sorted(times)
    return {
        f"p{percent} ms{when}": ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] * 1000
        for percent in (50, 99)
    }
