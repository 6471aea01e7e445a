"""The tombstones that were read, for older records that are read after them.

Of a key that lies in several partitions, an older record may be read in a later batch than its tombstone. The
table has no row then that it could be compared with, so the tombstones are kept beside it:

    _kafkapy/tombstones/part-....parquet    _key BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP,
                                            read TIMESTAMP

They are written before the MERGE of their batch, so a killed driver leaves too many rather than too few. One
that is there twice, or whose batch is not merged yet, changes nothing: older records lose to it in any case.

A value whose timestamp is earlier than that of a record before it, of its key and partition, leaves a note
like a tombstone at its own offset, with the later timestamp. The row has only the earlier one, by which
records of other partitions must not be compared with it (`upserts.py`).

As soon as there are many files of one tier, which goes by their size, they are merged into one, with the
largest offset and the latest timestamp of each key and partition: records of the same partition are compared
with the one, those of others with the other. So a tombstone is written again only a few times, however many
there are.
Those that were read long ago are dropped now and then: with their file, or if it has younger ones too, by
writing it again.

A batch needs those only that may be later than one of its records. Of each file, the largest offset and the
latest timestamp in each partition are known: from when the file was written, or by reading it once in a run.
A pipeline that reads new records needs no file, since its records are later than all tombstones before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kafkapy.pipeline.stores import HadoopFiles
from kafkapy.pipeline.tables.reader import reader

DEATHS: Final = "kafkapy: deaths"  # a name that no data has
_FOLDER: Final = "_kafkapy/tombstones"
_SCHEMA: Final = "_key BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP, read TIMESTAMP"
_MANY_FILES: Final = 16  # of a tier; each batch with tombstones adds one
_TIERS: Final = (1 << 14, 1 << 18, 1 << 22, 1 << 26)  # in bytes, which the files of each are below


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


def may_raise(newest: Places, oldest: Places) -> bool:
    """Whether a tombstone up to `newest` may raise the time of a record from `oldest` on."""
    return any(
        partition in newest and newest[partition].timestamp > record.timestamp
        for partition, record in oldest.items()
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

        With them come those that may raise the time of a record. `oldest` has the least offset and the
        earliest timestamp of the records.
        """
        names = self._names()
        if unknown := [name for name in names if name not in self._newest]:
            self._look(session, unknown)
        if not any(may_be_later(self._newest[name], oldest) for name in names):
            return None
        needed = (may_be_later, may_raise)
        read = [name for name in names if any(may(self._newest[name], oldest) for may in needed)]
        return self._read(session, read)

    def add(self, tombstones: DataFrame, partition: str, newest: Places) -> None:
        """Keeps those of a batch.

        `partition` is the column of the record's partition. `newest` has the largest offset and the latest
        timestamp of the tombstones.
        """
        for many in self._many():
            self._merge(tombstones.sparkSession, many)
        place = [f"{partition} AS partition", "_offset AS offset", "_timestamp AS timestamp"]
        kept = tombstones.selectExpr("_key", *place, "current_timestamp() AS read")
        for name in self._write(kept):
            self._newest[name] = newest

    def _many(self) -> list[list[str]]:
        """The files of each tier that has many."""
        tiers: dict[int, list[str]] = defaultdict(list)
        for name, size in self._sizes().items():
            tier = next((tier for tier, below in enumerate(_TIERS) if size < below), None)
            if tier is not None:
                tiers[tier].append(name)
        return [names for names in tiers.values() if len(names) >= _MANY_FILES]

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
        if not (names := self._names()):
            return
        young = f"read >= TIMESTAMP '{before.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f} UTC'"
        files = self._read(session, names).groupBy(f.input_file_name().alias("file"))
        counts = files.agg(f.count_if(f.expr(young)).alias("young"), f.count(f.lit(1)).alias("all")).collect()
        some = {row.file.rpartition("/")[2] for row in counts if row.young}
        if mixed := [row.file.rpartition("/")[2] for row in counts if 0 < row.young < row.all]:
            self._merge(session, mixed, young)
        for name in set(names) - some:
            self._files.delete(f"{_FOLDER}/{name}")

    def _names(self) -> Sequence[str]:
        return list(self._sizes())

    def _sizes(self) -> dict[str, int]:
        """The files, with their bytes."""
        found = self._files.sizes(_FOLDER)
        return {name: size for name, size in found.items() if name.startswith("part-")}

    def _read(self, session: SparkSession, names: Sequence[str]) -> DataFrame:
        paths = (self._files.uri(f"{_FOLDER}/{name}") for name in names)
        return reader(session).schema(_SCHEMA).parquet(*paths)

    def _merge(self, session: SparkSession, names: Sequence[str], condition: str = "true") -> None:
        rows = self._read(session, names).where(condition).groupBy("_key", "partition")
        written = self._write(
            rows.agg(*(f.max(name).alias(name) for name in ("offset", "timestamp", "read")))
        )
        if all(name in self._newest for name in names):
            self._newest |= dict.fromkeys(written, _newest_of([self._newest[name] for name in names]))
        for name in names:
            self._files.delete(f"{_FOLDER}/{name}")

    def _write(self, rows: DataFrame) -> set[str]:
        """Writes them into a file, and returns its name."""
        before = set(self._names())
        rows.coalesce(1).write.mode("append").parquet(self._files.uri(_FOLDER))
        return set(self._names()) - before


def _newest_of(places: Iterable[Places]) -> Places:
    """The largest offset and the latest timestamp of several files, in each partition."""
    found: dict[int, Place] = {}
    for one in places:
        for partition, place in one.items():
            before = found.get(partition, place)
            found[partition] = Place(*map(max, before, place))
    return found
