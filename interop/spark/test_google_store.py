"""A pipeline in Google's store, through its connector of Hadoop: state, lease and table.

KAFKAPY_GOOGLE_STORE says that this is to be run: the server is built first, and the connector fetched.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from interop.conftest import MakeTopic
from interop.spark.conftest import INTERPRETED, JARS_CACHE, SMALL
from interop.spark.test_runs import numbered, produce
from interop.support.gcs_server import GcsServer
from interop.support.waiting import wait_until
from tests.ports import free_ports

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("KAFKAPY_GOOGLE_STORE" not in os.environ, reason="KAFKAPY_GOOGLE_STORE is not set"),
]
COUNT = 2_400
PROGRAM = """
import json
import sys
import threading
from kafkapy.pipeline.stores import HadoopFiles, open_store

options = json.loads(sys.argv[1])
files, store = HadoopFiles("gs://lake/races", options), open_store("gs://lake/orders", options)


def winners(number):
    found = []

    def create(name):
        if files.create(f"{number}", name.encode()):
            found.append(name)

    threads = [threading.Thread(target=create, args=(f"driver {one}",)) for one in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found, files.read(f"{number}").decode()


for content in (b"first", b"second"):
    store.replace("_kafkapy/progress.json", content)
told = {"races": [winners(number) for number in range(5)]}
told["state"] = store.read("_kafkapy/progress.json").decode()
told["entries"] = [entry.name for entry in store.entries("_kafkapy")]
with store.lock("_kafkapy/lock", "held"):
    told["holder"] = store.holder("_kafkapy/lock")
    told["beside"] = None
    if len(sys.argv) == 2:
        import subprocess

        other = [sys.executable, *sys.orig_argv[1:], "beside"]
        told["beside"] = subprocess.run(other, capture_output=True, text=True).stderr
told["after"] = store.holder("_kafkapy/lock")
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcsServer]:
    (port,) = free_ports(1)
    with GcsServer(tmp_path_factory.mktemp("gcs"), port) as started:
        yield started


@pytest.fixture(scope="module")
def told(gcs: GcsServer) -> dict[str, Any]:
    """What a process found that used the store, while another one wanted its lock."""
    command = [sys.executable, "-c", PROGRAM, json.dumps(SMALL | gcs.spark_options)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def test_of_several_that_create_a_file_one_succeeds(told: dict[str, Any]) -> None:
    assert told["races"] == [[[content], content] for _, content in told["races"]]


def test_a_file_of_the_state_is_replaced(told: dict[str, Any]) -> None:
    assert told["state"] == "second"
    assert told["entries"] == ["progress.json"]


def test_a_second_driver_is_refused(told: dict[str, Any]) -> None:
    assert "gs://lake/orders: held (process " in told["beside"]
    assert told["holder"] is not None
    assert told["after"] is None


@pytest.mark.timeout(1200)
def test_drivers_that_are_killed_write_each_record_once(
    gcs: GcsServer, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(4)
    produce(bootstrap_servers, topic, numbered(range(COUNT)))
    file = tmp_path / "pipeline.yaml"
    definition = {
        "topic": topic,
        "table": "delta:gs://lake/table",
        "bootstrap": bootstrap_servers,
        "format": "json",
        "max_offsets_per_trigger": 200,
        "spark": SMALL | INTERPRETED | gcs.spark_options | {"spark.jars.ivy": str(JARS_CACHE)},
    }
    file.write_text(yaml.safe_dump(definition))
    command = [sys.executable, "-m", "kafkapy", "pipeline", "run", str(file), "--master", "local[2]"]

    def table() -> DeltaTable:
        return DeltaTable("gs://lake/table", storage_options=gcs.deltalake_options)

    def version() -> int:
        with contextlib.suppress(TableNotFoundError):
            return int(table().version())
        return -1

    for _ in range(2):
        killed_after_three(command, version, tmp_path / "killed.out")
    ended = subprocess.run([*command, "--once"], capture_output=True, text=True, timeout=400, check=False)
    assert ended.returncode == 0, ended.stderr
    assert sorted(table().to_pyarrow_table(columns=["id"])["id"].to_pylist()) == list(range(COUNT))


def killed_after_three(command: list[str], version: Callable[[], int], log: Path) -> None:
    """Starts a driver, and kills it with its JVM when the table has three versions more."""
    before = version()
    with log.open("wb") as output:
        driver = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        wait_until(lambda: version() >= before + 3 or driver.poll() is not None, timeout=400)
        assert driver.poll() is None, log.read_text()
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
