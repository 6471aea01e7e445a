"""Topics read straight from the segment files of a data directory, the broker down or up.

The Spark data source `kafkapy-log` (data_source.py) and `kafkapy pipeline export` stand on the same core,
which needs pyarrow and numpy and neither a broker nor a JVM:

    read_options.py      what to read, by the names of Spark's Kafka source
    data_directory.py    which partitions there are, and what the checkpoints say of them
    offline_log.py       what of a partition may be read: segments, offsets, aborted transactions
    splits.py            the offsets to read, cut into pieces of work
    range_reader.py      a piece of work as Arrow record batches

Nothing here writes, locks, repairs or truncates: a broker that runs on the directory notices nothing.

Crash story: a reader keeps nothing. What it makes of a torn tail, of a checkpoint that is out of date and of
files that go under it says offline_log.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "kafkapy-log"


def register(spark: SparkSession) -> None:
    """Make `spark.read.format("kafkapy-log")` and `spark.readStream.format("kafkapy-log")` known."""
    from kafkapy.log_source.data_source import LogDataSource

    spark.dataSource.register(LogDataSource)
