"""The state and the lease of a pipeline in Google's store, through its connector of Hadoop.

KAFKAPY_GOOGLE_STORE says that this is to be run: the server is built first, and the connector fetched.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from interop.spark.conftest import SMALL
from interop.support.gcs_server import GcsServer
from tests.ports import free_ports

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("KAFKAPY_GOOGLE_STORE" not in os.environ, reason="KAFKAPY_GOOGLE_STORE is not set"),
]
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
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What a process found that used the store, while another one wanted its lock."""
    (port,) = free_ports(1)
    with GcsServer(tmp_path_factory.mktemp("gcs"), port) as gcs:
        command = [sys.executable, "-c", PROGRAM, json.dumps(SMALL | gcs.spark_options)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        assert ended.returncode == 0, ended.stderr
        yield json.loads(ended.stdout.splitlines()[-1])


def test_of_several_that_create_a_file_one_succeeds(told: dict[str, Any]) -> None:
    assert told["races"] == [[[content], content] for _, content in told["races"]]


def test_a_file_of_the_state_is_replaced(told: dict[str, Any]) -> None:
    assert told["state"] == "second"
    assert told["entries"] == ["progress.json"]


def test_a_second_driver_is_refused(told: dict[str, Any]) -> None:
    assert "gs://lake/orders: held (process " in told["beside"]
    assert told["holder"] is not None
    assert told["after"] is None
