"""Reads topics from the segment files of a data directory, whether a broker runs or not.

The Spark data source `kafkapy-log` (data_source.py) and `kafkapy pipeline export` share this core. It needs
pyarrow and numpy, but neither a broker nor a JVM:

    read_options.py      what to read, with the option names of Spark's Kafka source
    data_directory.py    the partitions of a data directory, and their checkpoints
    offline_log.py       what may be read of a partition: segments, offsets, aborted transactions
    splits.py            the ranges of offsets to read, grouped into splits
    range_reader.py      a range as Arrow record batches

Nothing here writes, locks, repairs or truncates, so a broker that runs on the directory is not affected.

Crash story: a reader keeps nothing. offline_log.py says how it handles torn batches, checkpoints that are out
of date, and files that are deleted while it reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register the format `kafkapy-log` for `spark.read` and `spark.readStream`."""
    from kafkapy.spark.log_source.data_source import LogDataSource

    spark.dataSource.register(LogDataSource)
