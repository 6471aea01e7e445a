"""The same pipelines on a standalone cluster, whose executors and workers are killed.

Nothing is changed but `--master`, and that kafkapy is brought to executors whose Python lacks it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interop.conftest import MakeTopic
from interop.spark.conftest import JARS_CACHE, SHORT_LIFE, SMALL
from interop.spark.test_runs import numbered, produce
from interop.support.maven import java_missing
from interop.support.waiting import wait_until
from kafkapy.pipeline import Pipeline, PipelineDefinition
from kafkapy.pipeline.state import State
from kafkapy.spark.installation import find_spark
from kafkapy.spark.jars import find_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from interop.spark.standalone import Cluster

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")

pytestmark = pytest.mark.slow
ON_EXECUTORS = {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": SHORT_LIFE}
DRIVER_PROGRAM = """
import sys
from kafkapy.pipeline import Pipeline

print(Pipeline.load(sys.argv[1]).run(once=True))
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    from interop.spark.standalone import standalone

    if missing := java_missing():
        pytest.skip(missing)
    with standalone(tmp_path_factory.mktemp("cluster"), 2) as running:
        yield running


def written(folder: Path, **definition: Any) -> Path:
    file = folder / "pipeline.yaml"
    file.write_text(json.dumps(definition))
    return file


def command(file: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "kafkapy", "pipeline", "run", str(file), *arguments]


def ended(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=os.environ | environment
    )


def ids(table: Path) -> Counter[int]:
    """How often each id is in a Delta table, by a reader that is not ours."""
    import deltalake

    return Counter(deltalake.DeltaTable(str(table)).to_pyarrow_table(columns=["id"]).column("id").to_pylist())


def test_a_local_folder_is_refused(
    tmp_path: Path, cluster: Cluster, bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    file = written(tmp_path, bootstrap=bootstrap_servers, topic=topic, table="delta:table", spark=SMALL)
    refused = ended(command(file, "--once", "--master", cluster.url))
    assert refused.returncode == 1
    remedy = f"delta:file://{tmp_path / 'table'}"
    assert f"or {remedy} if all of them mount that folder" in refused.stderr


@pytest.mark.timeout(1200)
def test_no_record_is_lost_or_doubled_while_an_executor_and_a_worker_are_killed(
    tmp_path: Path,
    spark: SparkSession,
    cluster: Cluster,
    packed: dict[str, str],
    bare_python: dict[str, str],
    bootstrap_servers: str,
    make_topic: MakeTopic,
) -> None:
    topic, count = make_topic(4), 2_400
    produce(bootstrap_servers, topic, [*numbered(range(count)), ("bad", "{")])
    file = written(
        tmp_path,
        bootstrap=bootstrap_servers,
        topic=topic,
        table=f"delta:file://{tmp_path / 'table'}",
        format="json",
        dead_letter=f"{topic}.dlq",
        max_offsets_per_trigger=300,
        spark={**SMALL, **ON_EXECUTORS, **packed},
    )
    state = State.of(PipelineDefinition.load(file))

    def batches() -> int:
        progress = state.progress
        return 0 if progress is None else progress.batch + 1

    with subprocess.Popen(
        command(file, "--once", "--master", cluster.url),
        env=os.environ | bare_python,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as run:
        try:
            for least, kill in ((1, cluster.kill_executor), (4, cluster.kill_worker)):
                wait_until(lambda least=least: batches() >= least or run.poll() is not None, timeout=600)  # type: ignore[misc]
                assert run.poll() is None, run.communicate()[0]
                kill()
            output = run.communicate(timeout=600)[0]
        finally:
            run.kill()
    assert run.returncode == 0, output
    assert batches() > 4
    assert ids(tmp_path / "table") == Counter(range(count))
    report = Pipeline.load(tmp_path / "table").audit(spark=spark)
    assert report.ok, str(report)
    assert "1 dead letter" in output


def test_spark_submit_runs_a_program_with_a_pipeline(
    tmp_path: Path,
    cluster: Cluster,
    packed: dict[str, str],
    bare_python: dict[str, str],
    bootstrap_servers: str,
    make_topic: MakeTopic,
) -> None:
    from interop.spark.standalone import SPARK

    topic = make_topic(2)
    produce(bootstrap_servers, topic, numbered(range(500)))
    file = written(
        tmp_path,
        bootstrap=bootstrap_servers,
        topic=topic,
        table=f"delta:file://{tmp_path / 'table'}",
        format="json",
    )
    program = tmp_path / "program.py"
    program.write_text(DRIVER_PROGRAM)
    jars = find_jars(find_spark(), ["delta"], None, JARS_CACHE)
    conf = {**SMALL, **ON_EXECUTORS, **packed}
    conf |= {"spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension"}
    conf |= {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}
    del conf["spark.jars.ivy"]
    submitted = [
        str(SPARK / "bin" / "spark-submit"),
        "--master",
        cluster.url,
        "--jars",
        ",".join(map(str, jars)),
    ]
    submitted += [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    run = ended([*submitted, str(program), str(file)], PYSPARK_DRIVER_PYTHON=sys.executable, **bare_python)
    assert run.returncode == 0, run.stderr[-3000:]
    assert ids(tmp_path / "table") == Counter(range(500))
