"""What a version of Spark must do, in a Python that has it.

It is run as `python -m interop.spark.version_trial JSON`.

The JSON has bootstrap, data (the broker's directory), damaged (a copy of it in which the first batch of
events-0 is damaged), folder and lakes. The tables are judged by `test_versions.py`, with readers that are not
ours.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from interop.spark.conftest import SMALL
from kafkapy.pipeline import PipelineDefinition
from kafkapy.pipeline.audit.audit import audit
from kafkapy.pipeline.run.run import run
from kafkapy.spark import read_topic, session

PER_BATCH = 400


def main(bootstrap: str, data: str, damaged: str, folder: str, lakes: list[str]) -> dict[str, Any]:
    """Write all tables, look into the log, and return what was found."""
    spark = session(lakes, master="local[2]", conf=SMALL)
    try:
        for kind in (*lakes, "parquet"):
            _write(spark, bootstrap, f"{kind}:{folder}/{kind}-events", "events")
        for kind in lakes:
            _write(spark, bootstrap, f"{kind}:{folder}/{kind}-accounts", "accounts")
        kafka, log = read_topic(spark, "events", bootstrap=bootstrap), _log(spark, data)
        assert log.exceptAll(kafka).count() == kafka.exceptAll(log).count() == 0
        middle = kafka.where("partition = 1 and offset = 40").first()
        assert middle is not None
        for wanted in (
            "partition = 1 and offset between 40 and 45",
            f"key = cast('{middle.key.decode()}' as binary)",
            f"key in (cast('{middle.key.decode()}' as binary), cast('none' as binary))",
            f"timestamp >= timestamp'{middle.timestamp} UTC'",
            f"timestamp < timestamp'{middle.timestamp} UTC' and topic = 'events'",
            "topic = 'other'",
        ):
            found, expected = log.where(wanted), kafka.where(wanted)
            assert found.count() == expected.count(), wanted
            assert found.exceptAll(expected).count() == 0, wanted
        return {
            "version": spark.version,
            "beside_damage": _log(spark, damaged).where("partition = 0 and offset = 300").count(),
            "streamed": _streamed(spark, data, folder),
        }
    finally:
        spark.stop()


def _write(spark: SparkSession, bootstrap: str, table: str, topic: str) -> None:
    definition = PipelineDefinition.from_mapping(
        {
            "bootstrap": bootstrap,
            "topic": topic,
            "name": Path(table).name,
            "table": table,
            "format": "json",
            "dead_letter": f"{Path(table).name}.dlq",
            "max_offsets_per_trigger": PER_BATCH,
        }
    )
    run(definition, once=True, spark=spark)
    report = audit(definition, spark)
    assert report.ok, str(report)


def _log(spark: SparkSession, data: str) -> DataFrame:
    return spark.read.format("kafkapy-log").option("path", data).option("subscribe", "events").load()


def _streamed(spark: SparkSession, data: str, folder: str) -> list[int]:
    """How many rows each micro-batch of a bounded availableNow run had."""
    stream = spark.readStream.format("kafkapy-log").option("path", data).option("subscribe", "events")
    rows = stream.option("maxOffsetsPerTrigger", str(PER_BATCH)).load()
    writer = rows.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.trigger(availableNow=True).start(f"{folder}/streamed")
    assert query.awaitTermination(120)
    return [progress["numInputRows"] for progress in query.recentProgress]


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
