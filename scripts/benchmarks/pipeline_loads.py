"""What Spark does with a topic: reads in three ways, and pipelines into Delta.

The pipelines append and upsert. Reads go into Spark's `noop` sink, which takes every column and writes
nothing. Pipelines are run as `kafkapy pipeline run --once` runs them, in the one warm session of the
benchmark.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from kafkapy.pipeline import Pipeline
from kafkapy.spark import read_topic
from scripts.benchmarks.load import Figures, Target
from scripts.benchmarks.meter import FamilyMeter, Stopwatch
from scripts.benchmarks.pipeline_topics import RECORDS_PER_KEY, SCHEMA


@dataclass(frozen=True)
class Job:
    """A topic of so many rows on a server, the session, and a folder for tables."""

    spark: SparkSession
    target: Target
    data: Path
    topic: str
    rows: int
    folder: Path

    def read(self, **options: str) -> DataFrame:
        return read_topic(
            self.spark,
            self.topic,
            bootstrap=self.target.bootstrap_servers,
            options={f"kafka.{name.replace('_', '.')}": value for name, value in options.items()},
        )

    def pipeline(self) -> Pipeline:
        pipeline = Pipeline(self.topic, bootstrap=self.target.bootstrap_servers)
        return pipeline.json(SCHEMA).to_delta(self.folder / "table")


@dataclass(frozen=True)
class PipelineLoad:
    """`run` does the work, `rows` tells how many rows there must be in the table that it made."""

    title: str
    run: Callable[[Job], object]
    rows: Callable[[int], int] | None = None


def _consume(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _read_log(job: Job) -> None:
    source = job.spark.read.format("kafkapy-log").option("path", str(job.data)).option("topics", job.topic)
    _consume(source.load())


def _upsert(job: Job) -> None:
    # Four batches: the first fills the table, the others merge into it.
    pipeline = job.pipeline().upsert().max_offsets_per_trigger(job.rows // 4)
    pipeline.run(once=True, spark=job.spark)


LOADS: Mapping[str, PipelineLoad] = {
    "read-500": PipelineLoad(
        "Kafka source, max.poll.records=500 (Kafka's default)",
        lambda job: _consume(job.read(max_poll_records="500")),
    ),
    "read": PipelineLoad("Kafka source as read_topic sets it", lambda job: _consume(job.read())),
    "log": PipelineLoad("kafkapy-log over the server's data directory", _read_log),
    "append": PipelineLoad(
        "pipeline: JSON, append to Delta",
        lambda job: job.pipeline().append().run(once=True, spark=job.spark),
        rows=lambda records: records,
    ),
    "upsert": PipelineLoad(
        "pipeline: JSON, upsert into Delta, 10 records a key",
        _upsert,
        rows=lambda records: records // RECORDS_PER_KEY,
    ),
}


def measure(load: PipelineLoad, job: Job) -> Figures:
    """One run; raises AssertionError if the table does not hold what it must."""
    spark, server = Stopwatch(FamilyMeter(_jvm(job.spark))), job.target.stopwatch()
    load.run(job)
    computing, serving = spark.cost(), server.cost()
    if load.rows is not None:
        table = job.folder / "table"
        found = job.spark.read.format("delta").load(str(table)).count()
        assert found == load.rows(job.rows), f"{found} rows in the table, not {load.rows(job.rows)}"
        shutil.rmtree(table)
    millions = job.rows / 1e6
    return {
        "rows/s": job.rows / computing.seconds,
        "Spark CPU s / million rows": computing.cpu_seconds / millions,
        "server CPU s / million rows": serving.cpu_seconds / millions,
    }


def _jvm(spark: SparkSession) -> int:
    return int(spark._jvm.java.lang.ProcessHandle.current().pid())
