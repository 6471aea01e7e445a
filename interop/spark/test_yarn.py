"""A pipeline on YARN, into a table on HDFS, while containers and a driver are killed.

KAFKAPY_YARN says that this is to be run, since it takes minutes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from interop.conftest import MakeTopic
from interop.spark.conftest import JARS_CACHE, SHORT_LIFE, SMALL
from interop.spark.mini_hadoop import MiniHadoop
from interop.spark.standalone import SPARK
from interop.spark.test_cluster import DRIVER_PROGRAM, command, ended, ids, written
from interop.spark.test_runs import numbered, produce
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.waiting import wait_until
from kafkapy.spark.installation import find_spark
from kafkapy.spark.jars import find_jars

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("KAFKAPY_YARN" not in os.environ, reason="KAFKAPY_YARN is not set"),
]
COUNT = 2_400
EXECUTOR, DRIVER = "YarnCoarseGrainedExecutorBackend", "deploy.yarn.ApplicationMaster"
ON_YARN = {
    "spark.yarn.jars": f"local:{SPARK}/jars/*",  # or each application would bring 400 MB
    "spark.executor.instances": "2",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": SHORT_LIFE,
}
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@pytest.fixture(scope="module")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniHadoop]:
    with skipped_without_jars():
        started = MiniHadoop(tmp_path_factory.mktemp("hadoop"))
        with started:
            yield started


class Trial:
    """A pipeline of a topic with `COUNT` good records and a bad one, and its table on HDFS."""

    def __init__(
        self, folder: Path, hadoop: MiniHadoop, bootstrap_servers: str, topic: str, **spark: str
    ) -> None:
        self.folder, self.hadoop = folder, hadoop
        self._table = f"/lake/{topic}"
        self._files: Any = fsspec.filesystem("webhdfs", **hadoop.web_address, use_listings_cache=False)
        produce(bootstrap_servers, topic, [*numbered(range(COUNT)), ("bad", "{")])
        self.file = written(
            folder,
            bootstrap=bootstrap_servers,
            topic=topic,
            table=f"delta:{hadoop.url}{self._table}",
            format="json",
            dead_letter=f"{topic}.dlq",
            max_offsets_per_trigger=300,
            spark=spark,
        )

    def submitted(self, mode: str, conf: dict[str, str], environment: dict[str, str]) -> Submitted:
        """The pipeline by spark-submit."""
        program = self.folder / "program.py"
        program.write_text(DRIVER_PROGRAM)
        jars = find_jars(find_spark(), ["delta"], None, JARS_CACHE)
        words = [str(SPARK / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", mode]
        words += ["--jars", ",".join(map(str, jars)), "--files", str(self.file)]
        words += [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
        file = self.file.name if mode == "cluster" else str(self.file)
        return Submitted([*words, str(program), file], self.folder, environment)

    def wait_for_batches(self, least: int, run: Submitted) -> None:
        wait_until(lambda: self.batches() >= least or not run.running, timeout=600, pause=0.5)
        assert run.running, run.told()

    def batches(self) -> int:
        return len(self._files.glob(f"{self._table}/_kafkapy/checkpoint/*/commits/[0-9]*"))

    def copied(self) -> Path:
        """The table's files, fetched by a client of HDFS that is neither Spark's nor ours."""
        self._files.get(f"{self._table}/", f"{self.folder}/copy/", recursive=True)
        return self.folder / "copy"


class Submitted:
    """A run of spark-submit."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        self._log = folder / "submitted.out"
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                env=os.environ | environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def wait(self) -> int:
        return self._process.wait(600)

    def kill(self) -> None:
        if self.running:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def told(self) -> str:
        return self._log.read_text(errors="replace")[-6000:]


@pytest.mark.timeout(1200)
def test_a_driver_outside_of_yarn_and_an_executor_are_killed(
    tmp_path: Path,
    hadoop: MiniHadoop,
    packed: dict[str, str],
    bare_python: dict[str, str],
    bootstrap_servers: str,
    make_topic: MakeTopic,
) -> None:
    options = SMALL | ON_YARN | packed
    trial = Trial(tmp_path, hadoop, bootstrap_servers, make_topic(4), **options)
    environment = {**bare_python, "HADOOP_CONF_DIR": str(hadoop.settings)}
    run = trial.submitted("client", options | DELTA, environment | {"PYSPARK_DRIVER_PYTHON": sys.executable})
    try:
        trial.wait_for_batches(1, run)
        hadoop.kill_container(EXECUTOR)
        trial.wait_for_batches(trial.batches() + 2, run)
    finally:
        run.kill()
    ending = ended(command(trial.file, "--once", "--master", "yarn"), **environment)
    assert ending.returncode == 0, ending.stderr
    assert trial.batches() > 4
    assert ids(trial.copied()) == dict.fromkeys(range(COUNT), 1)


@pytest.mark.timeout(1200)
def test_a_driver_in_a_container_is_killed_and_started_again_by_yarn(
    tmp_path: Path,
    hadoop: MiniHadoop,
    packed: dict[str, str],
    bare_python: dict[str, str],
    bootstrap_servers: str,
    make_topic: MakeTopic,
) -> None:
    trial = Trial(tmp_path, hadoop, bootstrap_servers, make_topic(4))
    in_driver = {"spark.yarn.appMasterEnv.PYTHONPATH": packed["spark.executorEnv.PYTHONPATH"]}
    environment = {**bare_python, "HADOOP_CONF_DIR": str(hadoop.settings)}
    run = trial.submitted("cluster", SMALL | ON_YARN | packed | DELTA | in_driver, environment)
    try:
        trial.wait_for_batches(3, run)
        hadoop.kill_container(DRIVER)
        assert run.wait() == 0, run.told()
    finally:
        run.kill()
    assert trial.batches() > 4
    assert ids(trial.copied()) == dict.fromkeys(range(COUNT), 1)
