"""The same pipeline on a Spark cluster of a master and a worker.

Nothing is changed but `--master`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interop.conftest import MakeTopic
from interop.spark.conftest import SHORT_LIFE, SMALL
from interop.spark.test_runs import numbered, produce
from interop.support.maven import java_missing
from interop.support.waiting import wait_until
from kafkapy.pipeline import Pipeline
from tests.ports import free_ports
from tests.servers.server_process import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")

pytestmark = pytest.mark.slow
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


class SparkDaemon(ServerProcess):
    """A master or a worker of Spark's standalone cluster, ready when it says so."""

    def __init__(self, folder: Path, kind: str, ready: str, *arguments: object) -> None:
        self.name = kind
        self.log_path = folder / f"{kind}.out"
        self._ready = ready
        self._command = [
            str(SPARK_CLASS),
            f"org.apache.spark.deploy.{kind.lower()}.{kind}",
            "--host",
            "127.0.0.1",
        ]
        self._command += ["--webui-port", "0", *map(str, arguments)]

    def start(self, timeout: float = 60.0) -> SparkDaemon:
        with self.log_path.open("ab") as output:
            self.process = subprocess.Popen(
                self._command,
                env=os.environ
                | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
                | {"SPARK_DAEMON_JAVA_OPTS": SHORT_LIFE},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        wait_until(lambda: self._ready in self.log_path.read_text() or not self.running, timeout=timeout)
        assert self.running, self.output()
        return self


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, SparkDaemon]]:
    if missing := java_missing():
        pytest.skip(missing)
    (port,) = free_ports(1)
    url = f"spark://127.0.0.1:{port}"
    with (
        SparkDaemon(tmp_path, "Master", "New state: ALIVE", "--port", port) as master,
        SparkDaemon(
            tmp_path, "Worker", "Successfully registered", "-c", 2, "-m", "1g", "--work-dir", tmp_path, url
        ),
    ):
        yield url, master


def test_a_pipeline_runs_on_a_cluster(
    tmp_path: Path,
    spark: SparkSession,
    cluster: tuple[str, SparkDaemon],
    bootstrap_servers: str,
    make_topic: MakeTopic,
) -> None:
    url, master = cluster
    topic = make_topic(2)
    produce(bootstrap_servers, topic, [*numbered(range(2_000)), ("bad", "{")])
    settings = {
        **SMALL,
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": SHORT_LIFE,
    }
    definition = {
        "bootstrap": bootstrap_servers,
        "topic": topic,
        "table": f"delta:{tmp_path / 'table'}",  # refused below: a folder of each machine
        "format": "json",
        "dead_letter": f"{topic}.dlq",
        "spark": settings,
    }
    written = tmp_path / "pipeline.yaml"
    written.write_text(json.dumps(definition))
    command = [sys.executable, "-m", "kafkapy", "pipeline", "run", str(written), "--once"]
    command += ["--master", url]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert refused.returncode == 1
    remedy = f"delta:file://{tmp_path / 'table'}"
    assert f"or {remedy} if all of them mount that folder" in refused.stderr
    written.write_text(json.dumps({**definition, "table": remedy}))
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    assert "2,000 rows" in run.stdout
    assert "1 dead letter" in run.stdout
    assert "Registered app" in master.output(1000)
    report = Pipeline.load(tmp_path / "table").audit(spark=spark)
    assert report.ok, str(report)
