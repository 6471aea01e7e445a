"""Spark: a million rows written, read in batch, and streamed exactly once across kills of the driver."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import xor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from interop.support.maven import java_missing
from interop.support.waiting import wait_until

ROWS, PARTITIONS = 1_000_000, 6
HALF = 600_000
CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed (pip install pyspark==4.0.0)")
    if missing := java_missing():
        pytest.skip(missing)


def start(command: str, **arguments: Any) -> subprocess.Popen[str]:
    """A driver, its JVM with it in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "interop.spark.job", command, json.dumps(arguments)],
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


def run(command: str, **arguments: Any) -> Any:
    return answer(start(command, **arguments))


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
def written(bootstrap_servers: str) -> dict[str, Any]:
    """A topic to which Spark wrote two parts: what they hold, and the times before, between and after."""
    topic = "access-log"
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    wait_until(lambda: topic in admin.list_topics(timeout=30).topics)
    told = run("write", bootstrap=bootstrap_servers, topic=topic, parts=[HALF, ROWS])
    return {"source": {"bootstrap": bootstrap_servers, "topic": topic}, **told}


@pytest.mark.capability("batch")
@pytest.mark.capability("records")
@pytest.mark.capability("positions")
def test_batches_read_what_was_written_by_offset_and_by_time(written: dict[str, Any]) -> None:
    before, between, after = written["boundaries"]
    everything, first, second = run(
        "read",
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
    (middle,) = run("read", **written["source"], ranges=[{"starting": starting, "ending": ending}])
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
        driver = start("stream", **arguments)
        wait_until(lambda: committed() >= batches_committed or driver.poll() is not None, timeout=300)
        kill(driver)
        assert batches_committed <= committed() < batches, "it was not killed midway"

    run_until_killed(3)
    run_until_killed(8)
    assert run("stream", **arguments) == combined(written["written"])
