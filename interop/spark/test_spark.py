"""Spark writes, reads and streams through the broker; every row is compared."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interop.support.maven import java_missing

ROWS = int(os.environ.get("SPARK_ROWS", "1000000"))
DEADLINE = 600.0

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="pyspark is not installed"),
    pytest.mark.skipif(java_missing() is not None, reason=str(java_missing())),
]


class SparkJob:
    """One step of `interop.spark.job` in a process group of its own."""

    def __init__(self, output: Path, step: str, *arguments: object) -> None:
        self._output = output
        command = [sys.executable, "-m", "interop.spark.job", step, *map(str, arguments)]
        with output.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
            )

    def result(self) -> dict[str, Any]:
        """What it printed in the end."""
        out, _ = self.process.communicate(timeout=DEADLINE)
        assert self.process.returncode == 0, self._output.read_text(errors="replace")[-4000:]
        found: dict[str, Any] = json.loads(out.splitlines()[-1])
        print(found)
        return found

    def kill(self) -> None:
        """SIGKILL to the driver, Python and JVM alike."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture(scope="module")
def topic(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A topic with the web log in it, written and read back by Spark in batch."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic("web-log", 4, 1)])["web-log"].result()
    yield "web-log"
    admin.delete_topics(["web-log"])["web-log"].result()


@pytest.mark.capability("batch")
def test_a_data_frame_comes_back_whole_between_offsets_and_by_time(
    bootstrap_servers: str, topic: str, tmp_path: Path
) -> None:
    found = SparkJob(tmp_path / "spark.err", "batch", bootstrap_servers, topic, ROWS).result()
    assert found["rows"] == ROWS
    assert found["dense"]
    assert (found["differences"], found["between offsets"], found["by time"]) == (0, 0, 0)


@pytest.mark.capability("streaming")
def test_a_stream_that_is_killed_midway_ends_with_every_row_once(
    bootstrap_servers: str, topic: str, tmp_path: Path
) -> None:
    folder = tmp_path / "lake"
    arguments = (bootstrap_servers, topic, ROWS, folder)
    first = SparkJob(tmp_path / "first.err", "stream", *arguments)
    commits = folder / "checkpoint" / "commits"
    deadline = time.monotonic() + DEADLINE
    while len(list(commits.glob("[0-9]*"))) < 3:
        assert first.process.poll() is None, (tmp_path / "first.err").read_text(errors="replace")[-4000:]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    first.kill()
    done = len(list(commits.glob("[0-9]*")))
    again = SparkJob(tmp_path / "again.err", "stream", *arguments).result()
    assert 0 < again["batches"], f"the first run had ended after {done} batches"
    found = SparkJob(tmp_path / "verify.err", "verify", *arguments).result()
    assert found == {"rows": ROWS, "distinct offsets": ROWS, "dense": True, "differences": 0}
