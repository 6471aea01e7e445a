"""The Spark jobs, each a driver process of its own: `python -m interop.spark.job COMMAND ARGUMENTS-AS-JSON`.

The answer is the last line of standard output, as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from interop.spark.access_log import Fingerprint, access_log, fingerprint, fingerprint_columns
from interop.spark.conftest import SMALL
from kafkapy.spark import read_topic, session

SEED = 20_261_121


def write(spark: SparkSession, bootstrap: str, topic: str, parts: list[int]) -> dict[str, Any]:
    """Write rows up to each of `parts` in turn; what was written, and the times before, between and after."""
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
    """Stream what is there into Parquet, in batches of so many rows; what the Parquet holds in the end."""
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


COMMANDS: dict[str, Callable[..., Any]] = {
    "write": write,
    "read": read,
    "stream": stream,
}


def main(command: str, arguments: str) -> None:
    spark = session(master="local[2]", app_name="kafkapy interop", conf=SMALL)
    answer = COMMANDS[command](spark, **json.loads(arguments))
    spark.stop()
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
