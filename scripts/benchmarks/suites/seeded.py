"""How long tests take whose brokers have data: the example suite, its fixture, a snapshot.

scripts/bench seeded [--runs 5] [--gib 1]

The suite is that of examples/shop, 200 tests in two processes. Its figures are medians of its runs; the first
run, which compiles and caches, does not count. Those of the fixture are of all tests of these runs that have
a broker: how long they wait for it, without the first ones of each process and each setting, which fill it.
Then a broker with --gib of records in four partitions takes a snapshot and is reset to it, ten times.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import kafkapy
from scripts.benchmarks.comparison import parser_of
from scripts.benchmarks.load import Figures
from scripts.benchmarks.many_partitions import produce_to_each
from scripts.benchmarks.table import machine, told

_CHECKOUT: Final = Path(__file__).resolve().parents[3]
_EXAMPLE: Final = _CHECKOUT / "examples" / "shop"
_SNAPSHOTS: Final = 10
_RECORD_BYTES: Final = 1024

_PLUGIN: Final = '''\
"""Writes down how long each test waits for its broker, and whether it was the first with its settings."""

import json, os, time

import pytest

known = set()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    begun = time.perf_counter()
    try:
        return (yield)
    finally:
        if fixturedef.argname == "kafka_broker":
            marks = repr([mark.kwargs for mark in request.node.iter_markers("kafka")])
            line = json.dumps({"ms": (time.perf_counter() - begun) * 1000, "first": marks not in known})
            known.add(marks)
            with open(os.environ["KAFKAPY_WAITS"], "a") as waits:
                waits.write(line + "\\n")
'''


def _suite(runs: int, folder: Path) -> Figures:
    project = shutil.copytree(_EXAMPLE, folder / "shop")
    (project / "waiting.py").write_text(_PLUGIN)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "waiting"]
    seconds, cpu, waits = [], [], []
    for number in range(runs + 1):
        written = folder / f"waits-{number}"
        environment = {**os.environ, "KAFKAPY_WAITS": str(written), "PYTHONPATH": f"{_CHECKOUT}:{project}"}
        before, begun = os.times(), time.perf_counter()
        done = subprocess.run(
            command, cwd=project, env=environment, capture_output=True, text=True, check=False
        )
        ended, after = time.perf_counter(), os.times()
        if done.returncode:
            raise RuntimeError(done.stdout[-2000:])
        if number:
            seconds.append(ended - begun)
            cpu.append(
                after.children_user + after.children_system - before.children_user - before.children_system
            )
            waits += [json.loads(line) for line in written.read_text().splitlines()]
    later = [wait["ms"] for wait in waits if not wait["first"]]
    return {
        "suite, s": statistics.median(seconds),
        "suite, CPU s": statistics.median(cpu),
        "a test waits for its broker, ms, median": statistics.median(later),
        "90 % wait at most, ms": statistics.quantiles(later, n=10)[-1],
    }


def _snapshots(gib: float) -> Figures:
    taken, reset = [], []
    with kafkapy.Broker() as broker:
        broker.create_topics({"large": 4})
        records = int(gib * 2**30 / 4 / _RECORD_BYTES)
        produce_to_each(broker.bootstrap_servers, {"large": 4}, records, _RECORD_BYTES)
        for _ in range(_SNAPSHOTS):
            broker.produce("large", value="one more")
            begun = time.perf_counter()
            snapshot = broker.snapshot()
            taken.append((time.perf_counter() - begun) * 1000)
            begun = time.perf_counter()
            broker.reset(snapshot)
            reset.append((time.perf_counter() - begun) * 1000)
            snapshot.close()
    return {
        f"snapshot of {gib:g} GiB, ms, median": statistics.median(taken),
        "the longest, ms": max(taken),
        "reset, ms, median": statistics.median(reset),
    }


def main(options: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--runs", type=int, default=5, help="of the suite; 0 leaves it out")
    parser.add_argument("--gib", type=float, default=1.0, help="0 leaves the snapshot out")
    arguments = parser.parse_args(options)
    print(f"{machine()}, load average {os.getloadavg()[0]:.1f}")
    if arguments.runs:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            print(told(_suite(arguments.runs, Path(folder))))
    if arguments.gib:
        print(told(_snapshots(arguments.gib)))
    return 0
