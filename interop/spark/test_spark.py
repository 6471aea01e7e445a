"""Spark writes a million rows, reads them in batch and streams them.

The stream is exactly once, though the driver is killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from operator import xor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from interop.spark.conftest import INTERPRETED
from interop.support.known_topics import wait_until_known
from interop.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
ROWS, PARTITIONS = 1_000_000, 6
HALF = 600_000
CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def compiling(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with Spark's own choice of code: a million rows are many."""
    for name in INTERPRETED:
        spark.conf.unset(name)
    yield spark
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)


def start_stream(**arguments: Any) -> subprocess.Popen[str]:
    """A driver, its JVM with it in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "interop.spark.job", json.dumps(arguments)],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def kill(driver: subprocess.Popen[str]) -> None:
    os.killpg(driver.pid, signal.SIGKILL)
    driver.communicate()


def answer(driver: subprocess.Popen[str], timeout: float = 600) -> Any:
    try:
        printed, errors = driver.communicate(timeout=timeout)
    except BaseException:
        kill(driver)
        raise
    assert driver.returncode == 0, errors[-1_500:]
    return json.loads(printed.splitlines()[-1])


def combined(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The fingerprint of all rows from those of disjoint parts."""
    parts = list(parts)
    return {
        "rows": sum(part["rows"] for part in parts),
        "first": min(part["first"] for part in parts),
        "last": max(part["last"] for part in parts),
        "sum": sum(part["sum"] for part in parts),
        "xor": reduce(xor, (part["xor"] for part in parts)),
    }


@pytest.fixture(scope="module")
def written(compiling: SparkSession, bootstrap_servers: str) -> dict[str, Any]:
    """A topic to which Spark wrote two parts.

    The result says what they hold, and the times before, between and after them.
    """
    from interop.spark import job

    topic = "access-log"
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result(30)
    wait_until_known(bootstrap_servers, topic)
    told = job.write(compiling, bootstrap_servers, topic, [HALF, ROWS])
    return {"source": {"bootstrap": bootstrap_servers, "topic": topic}, **told}


@pytest.mark.capability("batch")
@pytest.mark.capability("records")
@pytest.mark.capability("positions")
def test_batches_read_what_was_written_by_offset_and_by_time(
    compiling: SparkSession, written: dict[str, Any]
) -> None:
    from interop.spark import job

    before, between, after = written["boundaries"]
    everything, first, second = job.read(
        compiling,
        **written["source"],
        ranges=[{"starting": "earliest", "ending": "latest"}, {"ending": between}, {"starting": between}],
    )
    assert combined(everything) == combined(written["written"])
    assert combined(everything)["rows"] == ROWS
    assert combined(first) == written["written"][0]
    assert combined(second) == written["written"][1]
    assert sorted(part["partition"] for part in everything) == list(range(PARTITIONS))
    for part in everything:
        assert (part["first_offset"], part["last_offset"]) == (0, part["rows"] - 1)
        assert part["sum_of_offsets"] == part["rows"] * (part["rows"] - 1) // 2
        assert before <= part["earliest"] <= part["latest"] <= after
        assert part["timestamp_type"] == 0

    # From a quarter to three quarters of each partition, given by offsets.
    starting = {str(part["partition"]): part["rows"] // 4 for part in everything}
    ending = {str(part["partition"]): part["rows"] * 3 // 4 for part in everything}
    (middle,) = job.read(compiling, **written["source"], ranges=[{"starting": starting, "ending": ending}])
    assert {str(part["partition"]): part["first_offset"] for part in middle} == starting
    assert {str(part["partition"]): part["last_offset"] + 1 for part in middle} == ending
    assert combined(middle)["rows"] == sum(ending.values()) - sum(starting.values())


@pytest.mark.capability("streaming")
def test_a_stream_killed_midway_ends_with_every_row_exactly_once(
    written: dict[str, Any], tmp_path: Path
) -> None:
    batches = 16
    arguments = {**written["source"], "folder": str(tmp_path), "per_batch": ROWS // batches}

    def committed() -> int:
        return len(list(tmp_path.glob("checkpoint/commits/[0-9]*")))

    def run_until_killed(batches_committed: int) -> None:
        driver = start_stream(**arguments)
        wait_until(lambda: committed() >= batches_committed or driver.poll() is not None, timeout=300)
        kill(driver)
        assert batches_committed <= committed() < batches, "it was not killed midway"

    run_until_killed(3)
    run_until_killed(8)
    assert answer(start_stream(**arguments)) == combined(written["written"])
