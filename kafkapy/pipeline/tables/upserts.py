"""Updates a table to the last record of each key, with SQL MERGE.

**Which record is later.** Of two records of one partition, the one with the higher offset. A key is in one
partition until the number of partitions changes. Of two records of different partitions, the one with the
later timestamp is later; with equal timestamps, the one of the higher partition. Only the last record of each
key in a batch goes into the MERGE, which changes a row only for a later record. So a batch that runs again,
or that reads old offsets again, changes nothing. A deleted key has no row, so a record is compared with the
tombstones that were read before it too (`tombstones.py`).

**By the record's key**, one MERGE inserts, updates and deletes. **By columns** (`key: id`), a tombstone has
no columns, so it deletes the rows whose `_key` equals its key. This is a second MERGE, only for a batch with
tombstones. If the driver is killed between the two, the batch runs again and does both. A record that a later
tombstone of the same batch deletes is not inserted by the first MERGE, which deletes an older row of the same
key. A deletion that has the columns, as those of change streams have, goes into the first MERGE.

**Few records** are in one partition, so none of them are shuffled, and are compared on the driver
(`few_records.py`). They are changed without a MERGE if the format has a way that reads less
(`delta_version.py`), or by a MERGE that names their keys, so that the rows of other keys are not shuffled.
The rows that change are the same. A tombstone may delete any number of rows, and of several key columns every
combination is looked at: if that is too much for the driver, it is a MERGE too.

A key is never null here: such records are dead letters (`batches.py`).
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.tables.delta_version import FILE, POSITION, DeltaVersion
from kafkapy.pipeline.tables.few_records import (
    FEW,
    RECORD_KEY_NOTE,
    Key,
    KeyNotes,
    Record,
    among_record_keys,
    at_places,
    collected,
    last_of_each,
    later,
    newest,
    oldest,
)
from kafkapy.pipeline.tables.sql import quoted, settings
from kafkapy.pipeline.tables.tombstones import DEATHS, Place, Places, Tombstones, deaths_of

ONE_TASK: Final = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
"""Settings for shuffles of few rows: Spark would plan again after each, to find one task enough."""
INTERPRETED: Final = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Settings for what reads few rows: Spark writes and compiles code for longer than it would run."""

_MOST_ROWS: Final = 50_000
"""The most rows of a table that are compared on the driver."""
_LAST: Final = 2**63 - 1
"""Stands for null in a row that no pipeline has written: no record is later, as in a MERGE."""

DELETED: Final = "_deleted"
RECORD_KEY: Final = "_key"
_COLUMNS: Final = "kafkapy: columns"
_RANK: Final = "kafkapy: rank"  # a name that no data has


class Upsert:
    """Updates a table to the last record of each key.

    `table` is its name in SQL. Without `keys`, rows are matched by the record's key. `partition` is the
    column with the record's partition. `few` means that there are up to FEW rows, in one partition.
    `open_rows` opens the rows of the table, if the format changes few of them with less work than a MERGE.
    `among_keys` lets a MERGE of few rows name their keys.
    """

    def __init__(
        self,
        table: str,
        keys: Sequence[str],
        tombstones: Tombstones,
        partition: str = "_partition",
        *,
        few: bool = False,
        open_rows: Callable[[SparkSession], DeltaVersion] | None = None,
        among_keys: bool = False,
    ) -> None:
        self._table = table
        self._tombstones = tombstones
        self._keys = tuple(keys) or (RECORD_KEY,)
        self._partition = partition
        self._few, self._open_rows, self._among_keys = few, open_rows, among_keys

    def run(self, rows: DataFrame) -> None:
        """Merges `rows`, which have the columns of the table and `_deleted`."""
        if not self._few:
            self._run(rows)
            return
        session = rows.sparkSession
        with contextlib.ExitStack() as stack:
            # Others are joined with a table, whose rows may be many.
            of_one_source = rows._jdf.queryExecution().analyzed().collectLeaves().size() == 1
            with settings(session, ONE_TASK | INTERPRETED if of_one_source else {}):
                batch = stack.enter_context(stored(rows))
                found = self._collected(batch)
            if found is None:
                self._run(batch)
            else:
                self._change_few(batch, *found)

    def _run(self, rows: DataFrame) -> None:
        present = [name.lower() for name in rows.columns]
        lacking = [key for key in self._keys if key.lower() not in present]
        if self._keys == (RECORD_KEY,):
            with stored(self._last_of_each(rows, self._keys)) as last:
                spans = Spans.of(last, self._partition)
                alive = self._alive(last, last, spans)
                with contextlib.nullcontext(last) if alive is last else stored(alive) as source:
                    if newest := spans.newest_tombstones:
                        self._tombstones.add(last.where(DELETED), self._partition, newest)
                    self._merge(source)
        else:
            with stored(rows) as batch:
                if lacking:
                    self._before_columns(batch, lacking[0])
                else:
                    self._by_columns(batch)

    def _before_columns(self, batch: DataFrame, lacking: str) -> None:
        """Keeps the tombstones of a batch before the first value, which brings the columns."""
        spans = Spans.of(batch, self._partition)
        if spans.oldest_values:
            shown = ", ".join(batch.columns[:20])
            raise PipelineError(f"key: the data has no column {lacking}; it has {shown}")
        if spans.newest_tombstones:
            tombstones = batch.where(f"{RECORD_KEY} IS NOT NULL")
            last = self._last_of_each(tombstones, (RECORD_KEY,))
            self._tombstones.add(last, self._partition, spans.newest_tombstones)

    def _by_columns(self, batch: DataFrame) -> None:
        place = (self._partition, "_offset", "_timestamp")
        keyed = " AND ".join(f"{quoted(key)} IS NOT NULL" for key in self._keys)
        tombstones = batch.where(f"{DELETED} AND {RECORD_KEY} IS NOT NULL AND NOT ({keyed})")
        tombstones = tombstones.select(RECORD_KEY, *place)
        spans = Spans.of(batch, self._partition, keyed)
        source = self._alive(self._last_of_each(batch.where(keyed), self._keys), batch, spans)
        if not spans.newest_tombstones:
            with stored(source) as rows:
                self._keep_deletions(rows, spans)
                self._merge(rows)
            return
        with stored(self._last_of_each(tombstones, (RECORD_KEY,))) as last_tombstones:
            with stored(self._marked_deleted(source, last_tombstones)) as rows:
                # Not before: `source` reads files that this may put together, and delete.
                self._tombstones.add(last_tombstones, self._partition, spans.newest_tombstones)
                self._keep_deletions(rows, spans)
                self._merge(rows)
            self._delete(last_tombstones)

    def _keep_deletions(self, rows: DataFrame, spans: Spans) -> None:
        """Keeps the deletions that have the key columns as tombstones of these."""
        if spans.newest_deletions:
            deletions = rows.where(DELETED).withColumn(RECORD_KEY, self._columns_as_key())
            self._tombstones.add(deletions, self._partition, spans.newest_deletions)

    def _columns_as_key(self) -> Column:
        """The key columns as a key that no record has."""
        values = f.to_json(f.struct(*(f.col(quoted(key)) for key in self._keys)))
        return f.concat(f.lit(b"\0kafkapy-columns "), values.cast("binary"))

    def _later(self, one: str, other: str) -> str:
        """The SQL condition that the record of alias `one` is later than that of alias `other`."""
        partition, other_partition = f"{one}.{self._partition}", f"{other}.{self._partition}"
        return (
            f"CASE WHEN {partition} = {other_partition} THEN {one}._offset > {other}._offset "
            f"ELSE {one}._timestamp > {other}._timestamp "
            f"OR ({one}._timestamp = {other}._timestamp AND {partition} > {other_partition}) END"
        )

    def _last_of_each(self, rows: DataFrame, keys: Sequence[str]) -> DataFrame:
        """The last record of each key, with one shuffle by the key, or none if they are few.

        It takes the last record of each key and partition by offset first, then the last of those.
        """
        columns = [f.col(quoted(key)) for key in keys]
        partition = f.col(self._partition)
        within = Window.partitionBy(*columns, partition).orderBy(f.col("_offset").desc())
        among = Window.partitionBy(*columns).orderBy(f.col("_timestamp").desc(), partition.desc())
        last = rows if self._few else rows.repartition(*columns)
        for window in (within, among):
            last = last.withColumn(_RANK, f.row_number().over(window)).where(f.col(_RANK) == 1).drop(_RANK)
        return last

    def _alive(self, source: DataFrame, batch: DataFrame, spans: Spans) -> DataFrame:
        """`source` with `_deleted` set if a later tombstone was read before.

        `batch` has all keys of `source`, and is stored.
        """
        known = self._tombstones.later_than(source.sparkSession, spans.oldest_values)
        if known is None:
            return source
        own = self._partition
        later = (
            f"CASE WHEN d.partition = {own} THEN d.offset > _offset ELSE d.timestamp > _timestamp "
            f"OR (d.timestamp = _timestamp AND d.partition > {own}) END"
        )
        dead = f.expr(f"coalesce(exists({quoted(DEATHS)}, d -> {later}), false)")
        columns = [f.col(quoted(name)) for name in source.columns if name != DELETED]
        keys = {RECORD_KEY: f.col(RECORD_KEY)}
        if self._keys != (RECORD_KEY,):
            keys[_COLUMNS] = self._columns_as_key()
        for name, key in keys.items():
            wanted = batch.select(key.alias(RECORD_KEY))
            deaths = deaths_of(f.broadcast(wanted) if spans.rows <= FEW else wanted, known)
            joined = source.withColumn(name, key).join(
                deaths.withColumnRenamed(RECORD_KEY, name), name, "left"
            )
            source = joined.select(*columns, (f.col(DELETED) | dead).alias(DELETED))
        return source

    def _marked_deleted(self, source: DataFrame, tombstones: DataFrame) -> DataFrame:
        """`source` with `_deleted` set if a later tombstone has the same record key."""
        same = f.expr(f"s.{RECORD_KEY} = d.{RECORD_KEY} AND {self._later('d', 's')}")
        joined = source.alias("s").join(tombstones.alias("d"), same, "left")
        columns = [f.col(f"s.{quoted(name)}") for name in source.columns if name != DELETED]
        dead = f.col(f"s.{DELETED}") | f.col("d._offset").isNotNull()
        return joined.select(*columns, dead.alias(DELETED))

    def _collected(self, batch: DataFrame) -> tuple[KeyNotes, list[Record]] | None:
        """The records of a small batch; None if their keys have no exact notes."""
        present = [name.lower() for name in batch.columns]
        if any(key.lower() not in present for key in self._keys):
            return None
        if (notes := KeyNotes.of(batch, self._keys)) is None:
            return None
        columns_key = f.lit(None) if self._keys == (RECORD_KEY,) else self._columns_as_key()
        records = collected(batch, notes, self._partition, columns_key)
        return None if records is None else (notes, records)

    def _change_few(self, batch: DataFrame, notes: KeyNotes, records: Collection[Record]) -> None:
        """Merges a small batch, which is stored and has these records."""
        last = last_of_each((one for one in records if None not in one.key), lambda one: one.key)
        # Those that have no columns delete the rows of their record's key.
        unkeyed = (one for one in records if one.deleted and None in one.key and one.record_key is not None)
        tombstones = last_of_each(unkeyed, lambda one: one.record_key)
        dead = self._dead(batch.sparkSession, last.values())
        dead |= {
            one
            for one in last.values()
            if one.record_key in tombstones and later(tombstones[one.record_key], one)
        }
        self._keep(batch, list(tombstones.values()))
        deletions = [one for one in last.values() if one.deleted]
        if deletions and self._keys != (RECORD_KEY,):
            deletions = [one for one in last.values() if one.deleted or one in dead]
            self._keep(batch.withColumn(RECORD_KEY, self._columns_as_key()), deletions)
        else:
            self._keep(batch, deletions)
        alive = [one for one in last.values() if not one.deleted and one not in dead]
        if self._open_rows is not None:
            rows = self._open_rows(batch.sparkSession)
            with settings(batch.sparkSession, ONE_TASK):
                if self._replace(rows, batch, notes, last, tombstones, alive):
                    return
        if last:
            gone = f.col(DELETED) | ~f.expr(at_places(alive, self._partition))
            source = batch.where(at_places(last.values(), self._partition)).withColumn(DELETED, gone)
            self._merge(source, notes.among(last.values(), "t.") if self._among_keys else None)
        if tombstones:
            self._delete(
                batch.where(at_places(tombstones.values(), self._partition)),
                among_record_keys(tombstones, "t.") if self._among_keys else None,
            )

    def _dead(self, session: SparkSession, records: Collection[Record]) -> set[Record]:
        """Those that follow a later tombstone that was read before."""
        known = self._tombstones.later_than(session, oldest(one for one in records if not one.deleted))
        if known is None:
            return set()
        by_key: dict[str, list[Record]] = {}
        for one in records:
            for key in (one.record_key, one.columns_key):
                if key is not None:
                    by_key.setdefault(key, []).append(one)
        deaths = known.where(among_record_keys(by_key)).select(
            f.hex("_key"), "partition", "offset", f.unix_micros("timestamp")
        )
        return {
            one
            for key, *place in deaths.collect()
            for one in by_key[key]
            if later(Record((), None, *place), one)
        }

    def _keep(self, batch: DataFrame, tombstones: Collection[Record]) -> None:
        """Keeps those of the batch for older records that are read later."""
        if tombstones:
            rows = batch.where(at_places(tombstones, self._partition))
            self._tombstones.add(rows, self._partition, newest(tombstones))

    def _replace(
        self,
        rows: DeltaVersion,
        batch: DataFrame,
        notes: KeyNotes,
        last: Mapping[Key, Record],
        tombstones: Mapping[str | None, Record],
        alive: Collection[Record],
    ) -> bool:
        """Deletes the rows that `last` and `tombstones` replace, and inserts those `alive`.

        False, and nothing is changed, if more than _MOST_ROWS may have one of the keys, or if the table does
        not know how many rows one of the files has. That is left to a MERGE.
        """
        among = [notes.among(last.values())] if last else []
        among += [among_record_keys(tombstones)] if tombstones else []
        if not among:
            return True
        own = [*notes.columns(), f.expr(RECORD_KEY_NOTE)]
        place = [
            f.coalesce(one, f.lit(_LAST)) for one in (self._partition, "_offset", f.unix_micros("_timestamp"))
        ]
        wanted = " OR ".join(f"({one})" for one in among)
        marked: dict[str, list[int]] = {}
        outdated = set()
        compared = rows.read().where(wanted).select(*own, *place, FILE, POSITION).limit(_MOST_ROWS + 1)
        found = compared.coalesce(1).collect()  # in one job: a limit by itself is looked for step by step
        if len(found) > _MOST_ROWS:
            return False
        for *noted, number, offset, timestamp, file, position in found:
            key, record_key = tuple(noted[:-1]), noted[-1]
            row = Record(key, record_key, number, offset, timestamp)
            follower, tombstone = (
                last.get(key),
                tombstones.get(record_key) if record_key is not None else None,
            )
            if (follower and later(follower, row)) or (tombstone and later(tombstone, row)):
                marked.setdefault(file, []).append(position)
            if follower and not later(follower, row):
                outdated.add(follower)
        new = [one for one in alive if one not in outdated]
        inserted = batch.where(at_places(new, self._partition)).drop(DELETED) if new else None
        with settings(batch.sparkSession, INTERPRETED):
            return rows.replace(marked, inserted)

    def _merge(self, source: DataFrame, among: str | None = None) -> None:
        names = [quoted(name) for name in source.columns if name != DELETED]
        same = " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in self._keys)
        if among is not None:
            same = f"{same} AND {among}"
        with view(source) as merged, _merging(source.sparkSession, among):
            source.sparkSession.sql(
                f"MERGE INTO {self._table} t USING {merged} s ON {same} "
                f"WHEN MATCHED AND ({self._later('s', 't')}) AND s.{DELETED} THEN DELETE "
                f"WHEN MATCHED AND ({self._later('s', 't')}) THEN "
                f"UPDATE SET {', '.join(f't.{name} = s.{name}' for name in names)} "
                f"WHEN NOT MATCHED AND NOT s.{DELETED} THEN "
                f"INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
            )

    def _delete(self, tombstones: DataFrame, among: str | None = None) -> None:
        same = f"t.{RECORD_KEY} = s.{RECORD_KEY}"
        if among is not None:
            same = f"{same} AND {among}"
        with view(tombstones) as merged, _merging(tombstones.sparkSession, among):
            tombstones.sparkSession.sql(
                f"MERGE INTO {self._table} t USING {merged} s ON {same} "
                f"WHEN MATCHED AND ({self._later('s', 't')}) THEN DELETE"
            )


@dataclass(frozen=True)
class Spans:
    """Where the values of a batch begin and its tombstones end, and its number of rows.

    Deletions are those that have the key columns; tombstones are the others.
    """

    oldest_values: Places
    newest_tombstones: Places
    newest_deletions: Places
    rows: int

    @classmethod
    def of(cls, rows: DataFrame, partition: str, keyed: str = "false") -> Spans:
        """`keyed` is the condition that a row has the key columns."""
        time = f.unix_micros("_timestamp")
        found = rows.groupBy(
            f.col(partition).alias("partition"),
            f.col(DELETED).alias("deleted"),
            f.expr(keyed).alias("keyed"),
        ).agg(
            f.struct(f.min("_offset"), f.min(time)).alias("oldest"),
            f.struct(f.max("_offset"), f.max(time)).alias("newest"),
            f.count(f.lit(1)).alias("rows"),
        )
        listed = found.collect()
        return cls(
            {row.partition: Place(*row.oldest) for row in listed if not row.deleted},
            {row.partition: Place(*row.newest) for row in listed if row.deleted and not row.keyed},
            {row.partition: Place(*row.newest) for row in listed if row.deleted and row.keyed},
            sum(row.rows for row in listed),
        )


@contextlib.contextmanager
def stored(rows: DataFrame) -> Iterator[DataFrame]:
    """Computes the rows once.

    A MERGE reads its source twice, to find the files and to write.
    """
    # Not with cache(): Delta refuses a MERGE from a cached source. Eagerly, because an observation within
    # `rows` (`batches.py` counts with one) ends with the first action, and a lazy call would count nothing.
    kept = rows.localCheckpoint()
    try:
        yield kept
    finally:
        kept._jdf.queryExecution().logical().rdd().unpersist(False)


def _merging(session: SparkSession, among: str | None) -> contextlib.AbstractContextManager[None]:
    """The settings of a MERGE: without the names of its keys, it may shuffle the whole table."""
    return settings(session, {} if among is None else ONE_TASK)


@contextlib.contextmanager
def view(rows: DataFrame) -> Iterator[str]:
    name = f"kafkapy_batch_{uuid.uuid4().hex}"
    rows.createTempView(name)
    try:
        yield name
    finally:
        rows.sparkSession.catalog.dropTempView(name)
