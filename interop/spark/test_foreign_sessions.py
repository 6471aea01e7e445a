"""Sessions that kafkapy did not make, and executors that lack something."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interop.conftest import MakeTopic
from kafkapy.pipeline import Pipeline, PipelineDefinition, PipelineError
from kafkapy.pipeline.spark_failures import spark_failures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

_PLAIN = """
import sys
from pyspark.sql import SparkSession
from kafkapy.errors import UserError
from kafkapy.pipeline import Pipeline
from kafkapy.spark import read_topic

bootstrap, topic, table = sys.argv[1:]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
def told(use):
    try:
        use()
    except UserError as error:
        print(error)
told(lambda: Pipeline(topic, bootstrap=bootstrap).to_delta(table).run(once=True, spark=spark))
told(lambda: read_topic(spark, topic, bootstrap=bootstrap))
spark.stop()
told(lambda: Pipeline(topic, bootstrap=bootstrap).to_parquet(table).run(once=True, spark=spark))
"""


def test_a_plain_session_is_refused_with_what_it_lacks(
    bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", _PLAIN, bootstrap_servers, make_topic(), str(tmp_path / "table")]
    checkout = Path(__file__).resolve().parents[2]
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    assert ended.stdout.splitlines() == [
        "the running Spark lacks delta and the Kafka connector and spark-avro: "
        "stop it (spark.stop()) before kafkapy.spark.session('delta')",
        "this Spark session lacks the Kafka connector: stop it (spark.stop()) before kafkapy.spark.session()",
        "this Spark session is stopped: make another with kafkapy.spark.session()",
    ]


def test_a_module_that_workers_lack_is_named(spark: SparkSession, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "only_here.py").write_text("def same(batches):\n    yield from batches\n")
    monkeypatch.syspath_prepend(tmp_path)
    import only_here  # type: ignore[import-not-found]

    definition = PipelineDefinition.from_mapping({"topic": "orders", "table": f"delta:{tmp_path}/table"})
    with (
        pytest.raises(
            PipelineError, match=r"executors lacks a module \(ModuleNotFoundError: .*'only_here'\)"
        ),
        spark_failures(definition),
    ):
        spark.range(1).mapInArrow(only_here.same, "id BIGINT").collect()


def test_an_error_of_a_function_in_a_worker_is_named(spark: SparkSession, tmp_path: Path) -> None:
    def odd(batches: Iterator[Any]) -> Iterator[Any]:
        raise ValueError("17 is odd")
        yield from batches

    definition = Pipeline("orders").to_delta(tmp_path / "table").definition
    with (
        pytest.raises(PipelineError, match=r"^orders: Spark failed: ValueError: 17 is odd$"),
        spark_failures(definition),
    ):
        spark.range(1).mapInArrow(odd, "id BIGINT").collect()
