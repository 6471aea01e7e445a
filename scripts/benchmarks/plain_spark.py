"""Tables by Spark alone, as its documents show: `readStream` and `foreachBatch`.

Nothing is set that a user would not have to set: the Kafka source with its defaults, a session with Spark's
and Delta's defaults, all records in one batch unless the load divides them. A record that does not fit its
schema becomes nulls, and a batch that runs again is appended again: that is what the pipeline's checks cost.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

# What kafkapy's sessions set otherwise.
_DEFAULTS: Final = {"spark.sql.shuffle.partitions": "200", "spark.databricks.delta.snapshotPartitions": "50"}


class PlainSpark:
    """A stream from a topic into a Delta table."""

    def __init__(self, spark: SparkSession, bootstrap: str, topic: str, schema: str, table: Path) -> None:
        self._spark = spark.newSession()
        for name, value in _DEFAULTS.items():
            self._spark.conf.set(name, value)
        self._bootstrap, self._topic, self._schema, self._table = bootstrap, topic, schema, str(table)
        self._checkpoint = str(table.with_name(f"{table.name}.checkpoint"))

    def append(self) -> None:
        def write(rows: DataFrame, _: int) -> None:
            rows.drop("offset").write.format("delta").mode("append").save(self._table)

        self._run(write, None)

    def upsert(self, at_once: int | None) -> None:
        """By the record's key; at most so many records in a batch."""

        def write(rows: DataFrame, _: int) -> None:
            latest = Window.partitionBy("key").orderBy(f.col("offset").desc())
            last = (
                rows.withColumn("rank", f.row_number().over(latest)).where("rank = 1").drop("rank", "offset")
            )
            if not Path(self._table).exists():
                last.write.format("delta").save(self._table)
                return
            session = rows.sparkSession
            last.createOrReplaceTempView("batch")
            session.sql(
                f"MERGE INTO delta.`{self._table}` t USING batch s ON t.key = s.key "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )

        self._run(write, at_once)

    def _run(self, write: Callable[[DataFrame, int], None], at_once: int | None) -> None:
        """All records that there are, and no more."""
        source = self._spark.readStream.format("kafka").option("kafka.bootstrap.servers", self._bootstrap)
        source = source.option("subscribe", self._topic).option("startingOffsets", "earliest")
        if at_once is not None:
            source = source.option("maxOffsetsPerTrigger", at_once)
        value = f.from_json(f.col("value").cast("string"), self._schema).alias("value")
        rows = source.load().select("key", "offset", value).select("key", "offset", "value.*")
        writer = rows.writeStream.foreachBatch(write).option("checkpointLocation", self._checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
