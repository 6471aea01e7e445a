"""The Spark jobs: rows are written, read in batch, and streamed.

The stream runs in a driver of its own, to be killed: `python -m interop.spark.job ARGUMENTS-AS-JSON`.
Its answer is the last line of standard output, as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from interop.spark.access_log import Fingerprint, access_log, fingerprint, fingerprint_columns
from interop.spark.conftest import SMALL
from kafkapy.spark import read_topic, session

SEED = 20_261_121


def write(spark: SparkSession, bootstrap: str, topic: str, parts: list[int]) -> dict[str, Any]:
    """Write rows in `parts`; return what was written, and the times between the parts."""
    boundaries, written, first = [], [], 0
    for last in parts:
        boundaries.append(int(time.time() * 1000))
        rows = access_log(spark, first, last, SEED)
        rows.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", topic).save()
        time.sleep(0.05)  # so that no record has the time of a boundary
        written.append(fingerprint(rows))
        first = last
    boundaries.append(int(time.time() * 1000))
    return {"boundaries": boundaries, "written": written}


def read(
    spark: SparkSession, bootstrap: str, topic: str, ranges: list[dict[str, Any]]
) -> list[list[dict[str, int]]]:
    """Batch reads, one for each pair of `starting` and `ending`: what each partition gave."""
    place = [
        f.min("offset").alias("first_offset"),
        f.max("offset").alias("last_offset"),
        f.sum("offset").alias("sum_of_offsets"),
        f.expr("unix_millis(min(timestamp))").alias("earliest"),
        f.expr("unix_millis(max(timestamp))").alias("latest"),
        f.max("timestampType").alias("timestamp_type"),
    ]
    answers = []
    for each in ranges:
        rows = read_topic(spark, topic, bootstrap=bootstrap, **each)
        partitions = rows.groupBy("partition").agg(*fingerprint_columns(), *place).collect()
        answers.append([{name: int(value) for name, value in row.asDict().items()} for row in partitions])
    return answers


def stream(spark: SparkSession, bootstrap: str, topic: str, folder: str, per_batch: int) -> Fingerprint:
    """Stream the topic into Parquet in small batches; return what the Parquet files hold."""
    rows = read_topic(spark, topic, bootstrap=bootstrap, stream=True, max_offsets_per_trigger=per_batch)
    query = (
        rows.writeStream.format("parquet")
        .option("path", f"{folder}/rows")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return fingerprint(spark.read.parquet(f"{folder}/rows"))


def main(arguments: str) -> None:
    spark = session(master="local[2]", app_name="kafkapy interop", conf=SMALL)
    answer = stream(spark, **json.loads(arguments))
    spark.stop()
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
