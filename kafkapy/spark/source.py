"""Reads a topic as a data frame, with suitable settings for Spark's own Kafka source.

Columns: key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP,
timestampType INT, headers ARRAY<STRUCT<key STRING, value BINARY>>.

A position is a word, a time or offsets (log/position.py). A stream's checkpoint has precedence over
`starting`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkapy.errors import UserError
from kafkapy.log.position import Position, milliseconds
from kafkapy.protocol.topic_names import why_invalid
from kafkapy.spark.setup_error import SparkSetupError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The connector asks for the start and the end of the partition at every poll, so larger polls save requests.
# With Kafka's default of 500, 400,000 small records took the broker three times as much CPU, and Spark 1.5 to
# 2.5 times as much (scripts/bench pipeline, loads read-500 and read).
MAX_POLL_RECORDS = 20_000
# The records of a task are there. But at its partition's end, the consumer asks for more in advance, and what
# the connector asks for then waits behind that on the connection: with Kafka's default of 500 ms, each
# partition adds half a second to a small batch.
FETCH_MAX_WAIT_MS = 10


def read_topic(
    spark: SparkSession,
    topic: str,
    *,
    bootstrap: str,
    stream: bool = False,
    starting: Position = "earliest",
    ending: Position = "latest",
    isolation: str = "read_committed",
    max_offsets_per_trigger: int | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the records of `topic` from `starting` to `ending`; a stream has no end.

    `options` are those of the Kafka source (with the prefix `kafka.` for the Java consumer's), and have
    precedence over all others. The session may be one of Spark Connect, whose server has the connector.
    """
    if problem := why_invalid(topic):
        raise UserError(f"{problem[0].lower()}{problem[1:]}")
    if isolation not in ("read_committed", "read_uncommitted"):
        raise UserError(f"isolation {isolation!r}: use read_committed or read_uncommitted")
    settings = {
        "kafka.bootstrap.servers": bootstrap,
        "kafka.isolation.level": isolation,
        "kafka.max.poll.records": str(MAX_POLL_RECORDS),
        "kafka.fetch.max.wait.ms": str(FETCH_MAX_WAIT_MS),
        "subscribe": topic,
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        **_position("starting", topic, starting),
    }
    if not stream:
        if starting == "latest":
            raise UserError(
                "starting at the latest offset there is nothing to read: use stream=True or a position"
            )
        if ending == "earliest":
            raise UserError("ending at the earliest offset there is nothing to read: name a later position")
        settings |= _position("ending", topic, ending)
    elif ending != "latest":
        raise UserError(f"ending={ending!r}: a stream has no end, leave it out")
    if max_offsets_per_trigger is not None:
        settings["maxOffsetsPerTrigger"] = str(max_offsets_per_trigger)
    reader = spark.readStream if stream else spark.read
    reader = reader.format("kafka").options(**{**settings, **(options or {})})
    try:
        rows = reader.load()
        _ = rows.schema  # which Spark Connect asks its server for only now
        return rows
    except Exception as error:
        if "data source: kafka" not in str(error):
            raise
        if hasattr(spark, "_jsparkSession"):
            remedy = "stop it (spark.stop()) before kafkapy.spark.session()"
        else:
            connector = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
            remedy = f"start its Spark Connect server with --packages {connector}"
        raise SparkSetupError("this Spark session lacks the Kafka connector", remedy) from None


def _position(side: str, topic: str, position: Position) -> dict[str, str]:
    """Return the Kafka source's options for a side, such as startingOffsets."""
    if isinstance(position, Mapping):
        return {f"{side}Offsets": json.dumps({topic: {str(key): value for key, value in position.items()}})}
    if isinstance(position, str) and position in ("earliest", "latest"):
        return {f"{side}Offsets": position}
    time = {f"{side}Timestamp": str(milliseconds(side, position))}
    if side == "starting":
        # If all records of a partition are older, there is nothing to read yet; that is no error.
        time["startingOffsetsByTimestampStrategy"] = "latest"
    return time
