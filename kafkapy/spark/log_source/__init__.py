"""The Spark data source `kafkapy-log`: topics from the segment files of a data directory.

What it reads, and how, is in kafkapy/log/, which needs no Spark. This room has Spark's side:

    spark_options.py     what to read, with the option names of Spark's Kafka source
    pushed_filters.py    what a query's filters leave to read
    stream_plan.py       the offsets of a stream's micro-batches
    data_source.py       the classes that Spark calls
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Register the format `kafkapy-log` for `spark.read` and `spark.readStream`.

    Spark 4.1 and later are told to push filters down to Python sources, unless the session says otherwise.
    """
    from kafkapy.spark.log_source.data_source import LogDataSource

    if spark.conf.get(_PUSHDOWN, None) is None:
        spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(LogDataSource)
