"""A Spark job in three steps, each a process of its own; prints one line of JSON with what it found.

    python -m interop.spark.job batch  BOOTSTRAP TOPIC ROWS          write the web log, read it back in batch
    python -m interop.spark.job stream BOOTSTRAP TOPIC ROWS FOLDER   stream it into Parquet, from the checkpoint on
    python -m interop.spark.job verify BOOTSTRAP TOPIC ROWS FOLDER   compare the Parquet files with the web log

`stream` may be killed at any time and started again.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

from interop.spark.session import start
from interop.spark.web_log import web_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONTENT = ("key", "value", "headers", "timestamp")
ROWS_PER_BATCH = 100_000


def batch(spark: SparkSession, bootstrap: str, topic: str, rows: int) -> dict[str, Any]:
    """Write the web log; read it whole, between offsets and by time."""
    from pyspark.sql import functions as F  # noqa: N812

    expected = web_log(spark, rows)
    began = time.monotonic()
    _with_broker(expected.write.format("kafka"), bootstrap).option("topic", topic).option(
        "includeHeaders", True
    ).save()
    written = time.monotonic()
    everything = _read(spark, bootstrap, topic).cache()
    found: dict[str, Any] = {"rows": everything.count()}
    read = time.monotonic()
    found["differences"] = _differences(everything.select(*CONTENT), expected)
    ends = {
        row["partition"]: row["n"]
        for row in everything.groupBy("partition").agg(F.count("*").alias("n")).collect()
    }
    found["dense"] = _is_dense(everything)

    # Between offsets: the middle half of each partition.
    starts = {str(partition): end // 4 for partition, end in ends.items()}
    stops = {str(partition): end * 3 // 4 for partition, end in ends.items()}
    between = _read(
        spark,
        bootstrap,
        topic,
        startingOffsets=json.dumps({topic: starts}),
        endingOffsets=json.dumps({topic: stops}),
    )
    window = F.lit(False)
    for partition, end in ends.items():
        window |= (F.col("partition") == partition) & F.col("offset").between(end // 4, end * 3 // 4 - 1)
    found["between offsets"] = _differences(between, everything.where(window))

    # By time: from the first record of each partition that is as new as the middle of the log.
    middle = everything.agg(F.percentile_approx(F.unix_millis("timestamp"), 0.5)).first()[0]
    since = _read(
        spark,
        bootstrap,
        topic,
        startingOffsetsByTimestamp=json.dumps({topic: {str(partition): middle for partition in ends}}),
    )
    first = (
        everything.where(F.unix_millis("timestamp") >= middle)
        .groupBy("partition")
        .agg(F.min("offset").alias("first"))
    )
    newer = everything.join(first, "partition").where("offset >= first").select(*everything.columns)
    found["by time"] = _differences(since, newer)
    return {**found, "write s": round(written - began, 1), "read s": round(read - written, 1)}


def stream(spark: SparkSession, bootstrap: str, topic: str, _: int, folder: str) -> dict[str, Any]:
    """Stream what the topic holds into Parquet, in batches of ROWS_PER_BATCH."""
    source = (
        _with_broker(spark.readStream.format("kafka"), bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", True)
        .option("maxOffsetsPerTrigger", ROWS_PER_BATCH)
        .load()
    )
    query = (
        source.select("partition", "offset", *CONTENT)
        .writeStream.format("parquet")
        .option("path", f"{folder}/table")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return {"batches": len(query.recentProgress)}


def verify(spark: SparkSession, _bootstrap: str, _topic: str, rows: int, folder: str) -> dict[str, Any]:
    """What the Parquet files hold."""
    table = spark.read.parquet(f"{folder}/table").cache()
    return {
        "rows": table.count(),
        "distinct offsets": table.select("partition", "offset").distinct().count(),
        "dense": _is_dense(table),
        "differences": _differences(table.select(*CONTENT), web_log(spark, rows)),
    }


def _with_broker(reader_or_writer: Any, bootstrap: str) -> Any:
    return reader_or_writer.option("kafka.bootstrap.servers", bootstrap)


def _read(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    reader = _with_broker(spark.read.format("kafka"), bootstrap).option("subscribe", topic)
    frame: DataFrame = reader.options(includeHeaders=True, **options).load()
    return frame.select("partition", "offset", *CONTENT)


def _differences(got: DataFrame, expected: DataFrame) -> int:
    """How many rows one has and the other has not, counted as often as they occur."""
    return got.exceptAll(expected).count() + expected.exceptAll(got).count()


def _is_dense(frame: DataFrame) -> bool:
    """Whether the offsets of each partition are 0, 1, 2, ... without a gap."""
    from pyspark.sql import functions as F  # noqa: N812

    ends = frame.groupBy("partition").agg(
        F.min("offset").alias("low"), F.max("offset").alias("high"), F.countDistinct("offset").alias("n")
    )
    return all(row["low"] == 0 and row["high"] + 1 == row["n"] for row in ends.collect())


def main(step: str, bootstrap: str, topic: str, rows: str, *folder: str) -> None:
    spark = start(f"kafkapy interop: {step}")
    print(
        json.dumps(
            {"batch": batch, "stream": stream, "verify": verify}[step](
                spark, bootstrap, topic, int(rows), *folder
            )
        )
    )
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
