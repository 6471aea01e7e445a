"""The Spark data source `kafkapy-log`: topics from segment files, as Spark's Kafka source gives them.

spark.read.format("kafkapy-log").option("path", data_dir).option("topics", "orders,payments").load()
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource

from kafkapy.log_source import FORMAT

_COLUMNS = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT"
)
_HEADERS = ", headers ARRAY<STRUCT<key: STRING, value: BINARY>>"


class LogDataSource(DataSource):
    """What Spark makes of `format("kafkapy-log")`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return _COLUMNS + _HEADERS
