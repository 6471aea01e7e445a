"""A small fuzzer: it damages valid inputs at random, and watches what the parser does.

A target gives well-formed inputs and a function that must take anything: it returns, or raises what the
target itself does not catch, which is a finding. Slow units and growing memory are findings too. Everything
follows from the seed: `Random(f"{seed} {target}")` makes a target's inputs.
"""

import faulthandler
import random
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

SLOWEST_UNIT = 0.1
"""Seconds of one execution that are a finding; measured again before it is one, since machines hiccup."""

GROWTH = 64 << 20
"""Bytes that a complete run may add to the peak of resident memory."""

HANG = 60
"""Seconds after which a target that does not come back is killed with a traceback."""

_EDGES = [b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff"]
_LENGTHS = [
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x00\x00\x00\x01",
    b"\x00\x01\x00\x00",
    b"\xff\xff",
    b"\x7f\xff",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x80\x01",
]


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    seeds: Callable[[random.Random], Sequence[bytes]]
    run: Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Finding:
    target: str
    text: str
    data: bytes = b""

    def __str__(self) -> str:
        return f"{self.target}: {self.text}"


@dataclass(slots=True)
class Report:
    executions: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    slowest_target: str = ""
    growth: int = 0
    findings: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        rate = self.executions / self.seconds if self.seconds else 0.0
        return (
            f"{self.executions} executions in {self.seconds:.0f} s ({rate:.0f} a second), slowest unit "
            f"{self.slowest * 1e3:.1f} ms ({self.slowest_target}), memory grew {self.growth / 1e6:.1f} MB, "
            f"{len(self.findings)} findings"
        )


def mutate(source: random.Random, data: bytes) -> bytes:
    """The input after one to four small accidents."""
    broken = bytearray(data)
    for _ in range(1 + (source.random() < 0.4) + (source.random() < 0.2) + (source.random() < 0.1)):
        position = int(source.random() * (len(broken) + 1))
        kind = int(source.random() * 8)
        if kind == 0:
            del broken[position:]
        elif kind == 1:
            broken[position : position + 1] = _EDGES[int(source.random() * len(_EDGES))]
        elif kind == 2:
            length = _LENGTHS[int(source.random() * len(_LENGTHS))]
            broken[position : position + len(length)] = length
        elif kind == 3:
            broken[position:position] = _LENGTHS[int(source.random() * len(_LENGTHS))]
        elif kind == 4:
            del broken[position : position + 1 + int(source.random() * 8)]
        elif kind == 5:
            broken[position : position + 1] = bytes([int(source.random() * 256)])
        elif kind == 6:
            broken[position:position] = source.randbytes(1 + int(source.random() * 8))
        else:
            other = int(source.random() * (len(broken) + 1))
            broken[position:position] = broken[other : other + 1 + int(source.random() * 32)]
    return bytes(broken)


def fuzz(targets: Sequence[Target], executions: int, seed: int) -> Report:
    """About `executions` in all, the same number for every target."""
    report = Report()
    each = max(1, executions // len(targets))
    for target in targets:  # what they import and compile on first use is not growth
        for data in target.seeds(random.Random(0))[:2]:
            target.run(data)
    before = peak_memory()
    started = time.perf_counter()
    for target in targets:
        faulthandler.dump_traceback_later(HANG + each / 100, exit=True)
        _fuzz_one(target, each, random.Random(f"{seed} {target.name}"), report)
    faulthandler.cancel_dump_traceback_later()
    report.seconds = time.perf_counter() - started
    report.growth = peak_memory() - before
    if report.growth > GROWTH:
        report.findings.append(Finding("memory", f"the peak grew by {report.growth / 1e6:.0f} MB"))
    return report


def _fuzz_one(target: Target, executions: int, source: random.Random, report: Report) -> None:
    seeds = target.seeds(source)
    for data in seeds:
        _execute(target, data, report)
    for _ in range(executions - len(seeds)):
        _execute(target, mutate(source, seeds[int(source.random() * len(seeds))]), report)


def _execute(target: Target, data: bytes, report: Report) -> None:
    report.executions += 1
    started = time.perf_counter()
    try:
        target.run(data)
    except Exception as error:
        report.findings.append(Finding(target.name, f"{type(error).__name__}: {error}", data))
        return
    seconds = time.perf_counter() - started
    if seconds > report.slowest:
        if seconds > SLOWEST_UNIT / 10:
            seconds = min(seconds, _timed(target, data), _timed(target, data))
        if seconds > report.slowest:
            report.slowest, report.slowest_target = seconds, target.name
        if seconds > SLOWEST_UNIT:
            report.findings.append(Finding(target.name, f"took {seconds * 1e3:.0f} ms", data))


def _timed(target: Target, data: bytes) -> float:
    started = time.perf_counter()
    target.run(data)
    return time.perf_counter() - started


def peak_memory() -> int:
    """The most resident memory that this process ever had, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
