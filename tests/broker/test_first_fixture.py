"""The first `kafka_broker` of a test run costs no more than its broker does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

ALONE = """
import pytest, time
started = time.process_time()
import kafkapy
with kafkapy.Broker():
    print("CPU", time.process_time() - started)
"""
IN_A_TEST = """
import time

def test_first(request):
    started = time.process_time()
    request.getfixturevalue("kafka_broker")
    print("CPU", time.process_time() - started)
"""
CONFTEST = """
from kafkapy.protocol import records

assert not type(records.__loader__).__module__.startswith("_pytest")
"""
RUNS = 3


def _cpu_seconds(directory: Path, *arguments: str | Path, write: bool) -> float:
    """The CPU time that a run of Python reports; its compiled modules are in `directory`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(directory / "compiled")}
    environment["PYTHONDONTWRITEBYTECODE"] = "" if write else "1"
    ended = subprocess.run(
        (sys.executable, *arguments),
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return next(float(line.split()[-1]) for line in ended.stdout.splitlines() if "CPU" in line)


def test_the_first_broker_of_a_run_without_a_cache_costs_no_more_than_a_broker(tmp_path: Path) -> None:
    """As after an installation: pip has compiled all modules, pytest none."""
    (tmp_path / "test_it.py").write_text(IN_A_TEST)
    _cpu_seconds(tmp_path, "-c", ALONE, write=True)
    alone = min(_cpu_seconds(tmp_path, "-c", ALONE, write=False) for _ in range(RUNS))
    pytest_run = ("-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-p", "no:asyncio", "test_it.py")
    first = min(_cpu_seconds(tmp_path, *pytest_run, write=False) for _ in range(RUNS))
    print(f"first kafka_broker: {first:.2f} s of CPU; a broker without pytest: {alone:.2f} s")
    assert first < 1.5 * alone


def test_pytest_does_not_rewrite_what_a_conftest_imports_of_the_broker(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(IN_A_TEST)
    pytest_run = ("-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-p", "no:asyncio", tmp_path)
    _cpu_seconds(tmp_path, *pytest_run, write=True)


@pytest.mark.parametrize("enabled", [True, False])
def test_collections_are_as_before_after_the_first_broker(enabled: bool) -> None:
    code = f"""
import gc, kafkapy
{"" if enabled else "gc.disable()"}
with kafkapy.Broker():
    print(gc.isenabled(), gc.get_freeze_count())
"""
    ended = subprocess.run((sys.executable, "-c", code), cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == [str(enabled), "0"]
