"""The Spark jobs, each a driver process of its own: `python -m interop.spark.job COMMAND ARGUMENTS-AS-JSON`.

The answer is the last line of standard output, as JSON. The connector comes by `spark.jars.packages`, as it
does for a user, with the settings for Ivy beside this file.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from interop.spark.access_log import Fingerprint, access_log, fingerprint, fingerprint_columns
from interop.support.maven import CACHE

SEED = 20_261_121


def session() -> SparkSession:
    connector = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    settings = {
        "spark.jars.packages": connector,
        "spark.jars.ivySettings": str(Path(__file__).with_name("ivysettings.xml")),
        "spark.jars.ivy": str(CACHE / "spark" / "ivy"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.master("local[2]").appName("kafkapy interop")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


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
    spark: SparkSession, bootstrap: str, topic: str, options: list[dict[str, str]]
) -> list[list[dict[str, int]]]:
    """Batch reads, one for each set of options: what each partition gave."""
    place = [
        f.min("offset").alias("first_offset"),
        f.max("offset").alias("last_offset"),
        f.sum("offset").alias("sum_of_offsets"),
        f.expr("unix_millis(min(timestamp))").alias("earliest"),
        f.expr("unix_millis(max(timestamp))").alias("latest"),
        f.max("timestampType").alias("timestamp_type"),
    ]
    answers = []
    for each in options:
        rows = _source(spark.read.format("kafka"), bootstrap, topic, each).load()
        partitions = rows.groupBy("partition").agg(*fingerprint_columns(), *place).collect()
        answers.append([{name: int(value) for name, value in row.asDict().items()} for row in partitions])
    return answers


def stream(spark: SparkSession, bootstrap: str, topic: str, folder: str, per_batch: int) -> Fingerprint:
    """Stream what is there into Parquet, in batches of so many rows; what the Parquet holds in the end."""
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(per_batch)}
    rows = _source(spark.readStream.format("kafka"), bootstrap, topic, options).load()
    query = (
        rows.writeStream.format("parquet")
        .option("path", f"{folder}/rows")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return fingerprint(spark.read.parquet(f"{folder}/rows"))


def _source(reader: Any, bootstrap: str, topic: str, options: dict[str, str]) -> Any:
    named = reader.option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    return named.option("includeHeaders", "true").options(**options)


COMMANDS: dict[str, Callable[..., Any]] = {
    "write": write,
    "read": read,
    "stream": stream,
}


def main(command: str, arguments: str) -> None:
    spark = session()
    spark.sparkContext.setLogLevel("ERROR")
    answer = COMMANDS[command](spark, **json.loads(arguments))
    spark.stop()
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
