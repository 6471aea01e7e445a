"""The tombstones that were read, for older records that are read after them.

Of a key that lies in several partitions, an older record may be read in a later batch than its tombstone. The
table has no row then that it could be compared with, so the tombstones are kept beside it:

    _kafkapy/tombstones/part-....parquet    _key BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP,
                                            read TIMESTAMP

They are written before the MERGE of their batch, so a killed driver leaves too many rather than too few. One
that is there twice, or whose batch is not merged yet, changes nothing: older records lose to it in any case.
Many files are merged into one, whose last tombstone of each key and partition counts. `maintain` drops those
that were read long ago.

A batch needs those only that may be later than one of its records. Of each file, the largest offset and the
latest timestamp in each partition are known: from when the file was written, or by reading it once in a run.
A pipeline that reads new records needs no file, since its records are later than all tombstones before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kafkapy.pipeline.stores import HadoopFiles
from kafkapy.pipeline.tables.reader import reader

DEATHS: Final = "kafkapy: deaths"  # a name that no data has
_FOLDER: Final = "_kafkapy/tombstones"
_SCHEMA: Final = "_key BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP, read TIMESTAMP"
_MANY_FILES: Final = 16  # each batch with tombstones adds one, and each batch reads all


class Place(NamedTuple):
    """An offset and a timestamp, in microseconds since 1970, in one partition.

    They need not be of one record.
    """

    offset: int
    timestamp: int


Places = Mapping[int, Place]  # by partition


def may_be_later(newest: Places, oldest: Places) -> bool:
    """Whether a tombstone up to `newest` may be later than a record from `oldest` on.

    `upserts.py` says which record is later.
    """
    return any(
        dead.offset > record.offset if partition == other else dead.timestamp >= record.timestamp
        for partition, dead in newest.items()
        for other, record in oldest.items()
    )


def deaths_of(keys: DataFrame, tombstones: DataFrame) -> DataFrame:
    """The tombstones of these keys, as (_key, DEATHS).

    DEATHS has the partition, offset and timestamp of each. Those of other keys are left out first: there may
    be millions.
    """
    deaths = f.collect_list(f.struct("partition", "offset", "timestamp")).alias(DEATHS)
    return tombstones.join(keys, "_key", "left_semi").groupBy("_key").agg(deaths)


class Tombstones:
    """The tombstones of the table at `location`."""

    def __init__(self, files: HadoopFiles) -> None:
        self._files = files
        self._newest: dict[str, Places] = {}  # by the name of the file

    def later_than(self, session: SparkSession, oldest: Places) -> DataFrame | None:
        """The tombstones of the files in which one may be later than a record; None without any.

        `oldest` has the least offset and the earliest timestamp of the records.
        """
        names = self._names()
        if unknown := [name for name in names if name not in self._newest]:
            self._look(session, unknown)
        needed = [name for name in names if may_be_later(self._newest[name], oldest)]
        return self._read(session, needed) if needed else None

    def add(self, tombstones: DataFrame, partition: str, newest: Places) -> None:
        """Keeps those of a batch.

        `partition` is the column of the record's partition. `newest` has the largest offset and the latest
        timestamp of the tombstones.
        """
        names = self._names()
        if len(names) >= _MANY_FILES:
            self._merge(tombstones.sparkSession, names)
            names = self._names()
        place = [f"{partition} AS partition", "_offset AS offset", "_timestamp AS timestamp"]
        self._write(tombstones.selectExpr("_key", *place, "current_timestamp() AS read"))
        for name in set(self._names()) - set(names):
            self._newest[name] = newest

    def _look(self, session: SparkSession, names: Sequence[str]) -> None:
        """Learns how new the tombstones in these files are."""
        found: dict[str, dict[int, Place]] = {name: {} for name in names}
        rows = self._read(session, names).withColumn("file", f.input_file_name())
        newest = rows.groupBy("file", "partition").agg(
            f.max("offset").alias("offset"), f.max(f.unix_micros("timestamp")).alias("timestamp")
        )
        for row in newest.collect():
            found[row.file.rpartition("/")[2]][row.partition] = Place(row.offset, row.timestamp)
        self._newest.update(found)

    def drop(self, session: SparkSession, before: datetime) -> None:
        """Forgets those that were read before that time."""
        if names := self._names():
            self._merge(session, names, f"read >= TIMESTAMP '{before.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC'")

    def _names(self) -> Sequence[str]:
        return [name for name in self._files.names(_FOLDER) if name.startswith("part-")]

    def _read(self, session: SparkSession, names: Sequence[str]) -> DataFrame:
        paths = (self._files.uri(f"{_FOLDER}/{name}") for name in names)
        return reader(session).schema(_SCHEMA).parquet(*paths)

    def _merge(self, session: SparkSession, names: Sequence[str], condition: str = "true") -> None:
        last = "max_by(struct(offset, timestamp, read), offset) AS last"
        rows = self._read(session, names).where(condition).groupBy("_key", "partition").agg(f.expr(last))
        self._write(rows.select("_key", "partition", "last.*"))
        for name in names:
            self._files.delete(f"{_FOLDER}/{name}")

    def _write(self, rows: DataFrame) -> None:
        rows.coalesce(1).write.mode("append").parquet(self._files.uri(_FOLDER))
