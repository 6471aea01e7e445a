"""Spark's Kafka source and pipelines read what was committed, once.

They read nothing of aborted and open transactions.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interop.conftest import MakeTopic
from interop.spark.test_audit import pipeline, run
from interop.spark.transactions import transactions_left_open

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")

from interop.spark.damage import rows_of
from kafkapy.pipeline.audit.audit import audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
PARTITIONS = 2


def texts(*, while_open: bool) -> list[str]:
    """The values that transactions_left_open commits, of one partition."""
    names = ["before"]
    for number in range(6):
        names.append(f"between {number}")
        if number % 2 == 0:
            names += [f"first {number}", f"first again {number}"]
        if number % 3 == 0:
            names += [f"second {number}", f"second again {number}"]
    if not while_open:
        names += ["after", "committed after"]
    return sorted(f"{name} {number}" for name in names for number in range(20))


def batch(spark: SparkSession, servers: str, topic: str) -> list[tuple[int, str]]:
    rows = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", topic)
        .load()
        .selectExpr("partition", "cast(value as string)")
        .collect()
    )
    return sorted((row[0], row[1]) for row in rows)


def stream_on(spark: SparkSession, servers: str, topic: str, folder: Path) -> list[tuple[int, str]]:
    """Stream what is new into a table of files; all its rows."""
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("kafka.isolation.level", "read_committed")
        .option("startingOffsets", "earliest")
        .option("subscribe", topic)
        .load()
        .selectExpr("partition", "cast(value as string)")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "table"))
    )
    query.awaitTermination(120)
    assert query.exception() is None
    return sorted((row[0], row[1]) for row in spark.read.parquet(str(folder / "table")).collect())


def expected(*, while_open: bool) -> list[tuple[int, str]]:
    """The partition and value of each committed record."""
    return [(index, text) for index in range(PARTITIONS) for text in texts(while_open=while_open)]


@pytest.mark.capability("batch")
@pytest.mark.capability("streaming")
def test_read_committed_gives_what_is_committed_and_stops_before_an_open_transaction(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(PARTITIONS)
    with transactions_left_open(bootstrap_servers, topic, PARTITIONS):
        assert batch(spark, bootstrap_servers, topic) == expected(while_open=True)
        assert stream_on(spark, bootstrap_servers, topic, tmp_path) == expected(while_open=True)
    assert batch(spark, bootstrap_servers, topic) == expected(while_open=False)
    assert stream_on(spark, bootstrap_servers, topic, tmp_path) == expected(while_open=False)


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_a_pipeline_over_transactions_passes_its_audit(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path, kind: str
) -> None:
    topic = make_topic(PARTITIONS)
    definition = pipeline(kind, topic, bootstrap_servers, tmp_path)

    def run_and_audit(*, while_open: bool) -> None:
        run(definition, spark)
        rows = rows_of(spark, definition.table).selectExpr("_partition", "cast(value as string)").collect()
        assert sorted((row[0], row[1]) for row in rows) == expected(while_open=while_open)
        report = audit(definition, spark)
        assert report.ok, str(report)
        assert report.notes["matching"] == len(rows)
        assert report.notes["no_record"] > 0, "markers and aborted records"

    with transactions_left_open(bootstrap_servers, topic, PARTITIONS):
        run_and_audit(while_open=True)
    run_and_audit(while_open=False)
