"""The tombstones that were read, for older records that are read after them.

Of a key that lies in several partitions, an older record may be read in a later batch than its tombstone. The
table has no row then that it could be compared with, so the tombstones are kept beside it:

    _kafkapy/tombstones/part-....parquet    _key BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP,
                                            read TIMESTAMP

They are written before the MERGE of their batch, so a killed driver leaves too many rather than too few. One
that is there twice, or whose batch is not merged yet, changes nothing: older records lose to it in any case.
Many files are merged into one, whose last tombstone of each key and partition counts. `maintain` drops those
that were read long ago.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kafkapy.pipeline.stores import HadoopFiles

DEATHS: Final = "kafkapy: deaths"  # a name that no data has
_FOLDER: Final = "_kafkapy/tombstones"
_SCHEMA: Final = "_key BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP, read TIMESTAMP"
_MANY_FILES: Final = 50  # each batch with tombstones adds one, and each batch reads all


class Tombstones:
    """The tombstones of the table at `location`."""

    def __init__(self, files: HadoopFiles) -> None:
        self._files = files

    def by_key(self, session: SparkSession) -> DataFrame | None:
        """(_key, DEATHS): partition, offset and timestamp of each tombstone; None without any."""
        if not self._names():
            return None
        deaths = f.collect_list(f.struct("partition", "offset", "timestamp")).alias(DEATHS)
        return self._read(session).groupBy("_key").agg(deaths)

    def add(self, tombstones: DataFrame, partition: str) -> None:
        """Keeps those of a batch; `partition` is the column of the record's partition."""
        if tombstones.isEmpty():
            return
        names = self._names()
        if len(names) >= _MANY_FILES:
            self._merge(tombstones.sparkSession, names)
        place = [f"{partition} AS partition", "_offset AS offset", "_timestamp AS timestamp"]
        self._write(tombstones.selectExpr("_key", *place, "current_timestamp() AS read"))

    def drop(self, session: SparkSession, before: datetime) -> None:
        """Forgets those that were read before that time."""
        if names := self._names():
            self._merge(session, names, f"read >= TIMESTAMP '{before.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC'")

    def _names(self) -> Sequence[str]:
        return [name for name in self._files.names(_FOLDER) if name.startswith("part-")]

    def _read(self, session: SparkSession) -> DataFrame:
        return session.read.schema(_SCHEMA).parquet(self._files.uri(_FOLDER))

    def _merge(self, session: SparkSession, names: Sequence[str], condition: str = "true") -> None:
        last = "max_by(struct(offset, timestamp, read), offset) AS last"
        rows = self._read(session).where(condition).groupBy("_key", "partition").agg(f.expr(last))
        self._write(rows.select("_key", "partition", "last.*"))
        for name in names:
            self._files.delete(f"{_FOLDER}/{name}")

    def _write(self, rows: DataFrame) -> None:
        rows.coalesce(1).write.mode("append").parquet(self._files.uri(_FOLDER))
