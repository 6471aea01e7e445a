"""What the figures of clusters are made of.

They are the longest gap between acknowledgements, and sums over processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from scripts.benchmarks.cluster.steady import longest_gap
from scripts.benchmarks.meter import Meter

_HOLDS_50_MB = "held = bytearray(50_000_000); print(flush=True); input()"


def test_a_gap_that_began_before_the_fault_counts_and_one_that_ended_before_it_does_not() -> None:
    times = [0.0, 9.0, 10.0, 14.0, 15.0]
    assert longest_gap(times, 10.5).seconds == 4.0
    assert longest_gap(times, 10.5).end == 14.0
    assert longest_gap(times, 14.5).seconds == 1.0
    assert longest_gap(times, 0.5).seconds == 9.0
    assert longest_gap(times, 20.0).seconds == 0.0


def test_the_memory_of_several_processes_is_their_sum() -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", _HOLDS_50_MB], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        meters = [Meter(process.pid) for process in processes]
        both = Meter(*(process.pid for process in processes))
        assert both.resident_mb() == pytest.approx(sum(each.resident_mb() for each in meters), rel=0.01)
        assert both.resident_mb() > 100
        assert 100 < both.proportional_mb() <= both.resident_mb()
    finally:
        for process in processes:
            process.communicate(b"\n")


def test_the_cpu_time_of_a_process_is_that_of_its_own_clock() -> None:
    meter = Meter(os.getpid())
    before, own = meter.cpu_seconds(), time.process_time()
    sum(range(1_000_000))
    assert meter.cpu_seconds() - before == pytest.approx(time.process_time() - own, abs=0.005)
