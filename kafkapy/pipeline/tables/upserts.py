"""Updates a table to the last record of each key, with SQL MERGE.

**Which record is later.** Of two records of one partition, the one with the higher offset. A key is in one
partition until the number of partitions changes. Of two records of different partitions, the one with the
later time is later; with equal times, the one of the higher partition. The time of a record is its timestamp,
or that of an earlier record of its key and partition, if that is later: so what follows in a partition is
never older, and the last of all records is the same in whatever order they are read. Only the last record of
each key in a batch goes into the MERGE, which changes a row only for a later record. So a batch that runs
again, or that reads old offsets again, changes nothing. A deleted key has no row, so a record is compared
with the tombstones that were read before it too (`tombstones.py`).

A row has no more than its record's timestamp. So if it replaces one with a later timestamp, in its partition,
that is kept with the tombstones. To learn of it, the table is looked at, if timestamps go back at all
(`latest_times.py`).

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

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as f

from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.tables.delta_version import FILE, POSITION, DeltaVersion
from kafkapy.pipeline.tables.few_records import (
    FEW,
    INTERPRETED,
    RECORD_KEY_NOTE,
    Key,
    KeyNotes,
    Record,
    among_record_keys,
    at_places,
    collected,
    ends,
    last_among,
    last_within,
    later,
    newest,
    oldest,
    outlived,
    survivors,
    time_of_each,
)
from kafkapy.pipeline.tables.latest_times import LatestTimes
from kafkapy.pipeline.tables.sql import quoted, settings
from kafkapy.pipeline.tables.tombstones import DEATHS, Place, Places, Tombstones, deaths_of

ONE_TASK: Final = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
"""Settings for shuffles of few rows: Spark would plan again after each, to find one task enough."""
PAGES: Final = {"spark.sql.parquet.pushdown.inFilterThreshold": "200"}
"""Setting with which a Parquet file is read without the pages that have none of up to so many keys.

Of more keys than the setting says, Spark compares the range. A filter of very many keys takes time itself.
"""

_MOST_ROWS: Final = 50_000
"""The most rows of a table that are compared on the driver."""
_LAST: Final = 2**63 - 1
"""Stands for null in a row that no pipeline has written: no record is later, as in a MERGE."""

DELETED: Final = "_deleted"
RECORD_KEY: Final = "_key"
_COLUMNS: Final = "kafkapy: columns"
_RANK: Final = "kafkapy: rank"  # a name that no data has
_TIME: Final = "kafkapy: time"
"""The column with the time of a record, a timestamp."""
_RAISED: Final = f"`{_TIME}` > _timestamp"
_OF_ROW: Final = "kafkapy: row "
"""Begins the names of the table's columns, beside those of records."""


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
        latest_times: LatestTimes,
        partition: str = "_partition",
        *,
        few: bool = False,
        open_rows: Callable[[SparkSession], DeltaVersion] | None = None,
        among_keys: bool = False,
    ) -> None:
        self._table = table
        self._tombstones, self._latest_times = tombstones, latest_times
        self._keys = tuple(keys) or (RECORD_KEY,)
        self._partition = partition
        self._few, self._open_rows, self._among_keys = few, open_rows, among_keys

    @property
    def _by_record_key(self) -> bool:
        return self._keys == (RECORD_KEY,)

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
        if self._by_record_key:
            with stored(self._ranked(rows, self._keys)) as ranked:
                spans = Spans.of(ranked, self._partition, "true")
                alive = self._alive(self._raised(ranked, spans), ranked, spans)
                last = self._last_among(alive)
                with contextlib.nullcontext(last) if alive is ranked else stored(last) as source:
                    kept = spans if alive is ranked else Spans.of(source, self._partition, "true")
                    self._keep_places(source, kept)
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
        if spans.values:
            shown = ", ".join(batch.columns[:20])
            raise PipelineError(f"key: the data has no column {lacking}; it has {shown}")
        if spans.newest_tombstones:
            tombstones = batch.where(f"{RECORD_KEY} IS NOT NULL")
            self._keep_tombstones(self._ranked(tombstones, (RECORD_KEY,)), spans)

    def _by_columns(self, batch: DataFrame) -> None:
        place = (self._partition, "_offset", "_timestamp")
        keyed = " AND ".join(f"{quoted(key)} IS NOT NULL" for key in self._keys)
        tombstones = batch.where(f"{DELETED} AND {RECORD_KEY} IS NOT NULL AND NOT ({keyed})")
        tombstones = tombstones.select(RECORD_KEY, *place)
        spans = Spans.of(batch, self._partition, keyed)
        ranked = self._ranked(batch.where(keyed), self._keys)
        source = self._last_among(self._alive(self._raised(ranked, spans), batch, spans))
        if not spans.newest_tombstones:
            with stored(source) as rows:
                self._keep_places(rows, Spans.of(rows, self._partition, "true"))
                self._merge(rows)
            return
        with stored(self._ranked(tombstones, (RECORD_KEY,))) as last_tombstones:
            with stored(self._marked_deleted(source, last_tombstones)) as rows:
                # Not before: `source` reads files that this may put together, and delete.
                self._keep_tombstones(last_tombstones, spans)
                self._keep_places(rows, Spans.of(rows, self._partition, "true"))
                self._merge(rows)
            self._delete(last_tombstones)

    def _keep_tombstones(self, tombstones: DataFrame, spans: Spans) -> None:
        """Keeps the last of each partition, of those that have no columns."""
        kept = tombstones.withColumn("_timestamp", f.col(quoted(_TIME)))
        self._tombstones.add(kept, self._partition, spans.newest_tombstones)

    def _keep_places(self, rows: DataFrame, spans: Spans) -> None:
        """Keeps the places of deletions, and of values whose time is not their timestamp.

        As those of the key columns, if rows are matched by these.
        """
        if spans.newest_kept:
            kept = rows.where(f"{DELETED} OR {_RAISED}").withColumn("_timestamp", f.col(quoted(_TIME)))
            if not self._by_record_key:
                kept = kept.withColumn(RECORD_KEY, self._columns_as_key())
            self._tombstones.add(kept, self._partition, spans.newest_kept)

    def _columns_as_key(self) -> Column:
        """The key columns as a key that no record has."""
        values = f.to_json(f.struct(*(f.col(quoted(key)) for key in self._keys)))
        return f.concat(f.lit(b"\0kafkapy-columns "), values.cast("binary"))

    def _later(self, one: str, other: str) -> str:
        """The SQL condition that the record of alias `one` is later than the row of alias `other`."""
        partition, other_partition = f"{one}.{self._partition}", f"{other}.{self._partition}"
        time = f"{one}.{quoted(_TIME)}"
        return (
            f"CASE WHEN {partition} = {other_partition} THEN {one}._offset > {other}._offset "
            f"ELSE {time} > {other}._timestamp "
            f"OR ({time} = {other}._timestamp AND {partition} > {other_partition}) END"
        )

    def _ranked(self, rows: DataFrame, keys: Sequence[str]) -> DataFrame:
        """The last record of each key and partition, with its time and its rank for the key.

        With one shuffle by the key, or none if they are few.
        """
        columns = [f.col(quoted(key)) for key in keys]
        within = Window.partitionBy(*columns, f.col(self._partition)).orderBy(f.col("_offset").desc())
        whole = within.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
        last = rows if self._few else rows.repartition(*columns)
        last = last.withColumn(_RANK, f.row_number().over(within))
        last = last.withColumn(_TIME, f.max("_timestamp").over(whole)).where(f.col(_RANK) == 1)
        return last.withColumn(_RANK, self._rank_among(keys))

    def _rank_among(self, keys: Sequence[str]) -> Column:
        columns = [f.col(quoted(key)) for key in keys]
        newest_first = (f.col(quoted(_TIME)).desc(), f.col(self._partition).desc())
        return f.row_number().over(Window.partitionBy(*columns).orderBy(*newest_first))

    def _last_among(self, rows: DataFrame) -> DataFrame:
        """The last record of each key; `rows` have no rank if it has to be found anew."""
        if _RANK not in rows.columns:
            rows = rows.withColumn(_RANK, self._rank_among(self._keys))
        return rows.where(f.col(_RANK) == 1).drop(_RANK)

    def _raised(self, ranked: DataFrame, spans: Spans) -> DataFrame:
        """`ranked` after the rows of the table which they follow in their partition."""
        if not self._go_back(ranked.sparkSession, spans.oldest, spans.newest):
            return ranked
        times = self._times_before(ranked, spans.oldest)
        same = [
            f.col(quoted(name)) == f.col(quoted(_OF_ROW + name))
            for name in (*self._keys, self._partition, "_offset")
        ]
        joined = ranked.drop(_RANK).join(times, same, "left")
        time = f.greatest(quoted(_TIME), quoted(f"{_OF_ROW}_timestamp"))
        return joined.withColumn(_TIME, time).drop(*times.columns)

    def _go_back(self, session: SparkSession, oldest: Places, newest: Places) -> bool:
        def later_than(times: Mapping[int, int]) -> dict[int, int]:
            rows = self._rows_later_than(session, times).groupBy(self._partition)
            return dict(rows.agg(f.max(f.unix_micros("_timestamp"))).collect())

        return self._latest_times.may_go_back(oldest, newest, later_than)

    def _rows_later_than(self, session: SparkSession, times: Mapping[int, int]) -> DataFrame:
        """The rows with a later timestamp than that of their partition."""
        later = (
            f"({self._partition} = {number} AND _timestamp > timestamp_micros({time}))"
            for number, time in times.items()
        )
        return session.sql(f"SELECT * FROM {self._table} WHERE {' OR '.join(later)}")

    def _times_before(self, records: DataFrame, oldest: Places) -> DataFrame:
        """The later timestamps of rows that records follow in their partition, by key and place.

        The columns are named as those of records, after _OF_ROW.
        """
        place = (*self._keys, self._partition, "_offset")
        times = {number: one.timestamp for number, one in oldest.items()}
        rows = self._rows_later_than(records.sparkSession, times)
        rows = rows.select(*(f.col(quoted(name)).alias(_OF_ROW + name) for name in (*place, "_timestamp")))
        same = [
            f.col(quoted(name)) == f.col(quoted(_OF_ROW + name)) for name in (*self._keys, self._partition)
        ]
        same += [
            f.col("_offset") > f.col(quoted(f"{_OF_ROW}_offset")),
            f.col("_timestamp") < f.col(quoted(f"{_OF_ROW}_timestamp")),
        ]
        found = (
            records.join(rows, same)
            .groupBy(*map(quoted, place))
            .agg(f.max(quoted(f"{_OF_ROW}_timestamp")).alias(f"{_OF_ROW}_timestamp"))
        )
        return found.withColumnsRenamed({name: _OF_ROW + name for name in place})

    def _alive(self, ranked: DataFrame, batch: DataFrame, spans: Spans) -> DataFrame:
        """`ranked` without records before a tombstone of their key that was read before.

        By columns, those before a tombstone of their record's key get `_deleted`. `batch` has all keys of
        `ranked`, and is stored.
        """
        known = self._tombstones.later_than(ranked.sparkSession, spans.oldest)
        if known is None:
            return ranked
        own, deaths = self._partition, quoted(DEATHS)
        by_columns = not self._by_record_key
        before = f"filter({deaths}, d -> d.partition = {own} AND d.offset <= _offset)"
        time = f"greatest({quoted(_TIME)}, array_max(transform({before}, d -> d.timestamp)))"
        key = self._columns_as_key() if by_columns else f.col(RECORD_KEY)
        rows = self._with_deaths(ranked.drop(_RANK), key, batch, spans, known)
        rows = rows.withColumn(_TIME, f.expr(time))
        rows = rows.where(f"NOT {self._outlived(_TIME)}").drop(DEATHS)
        if by_columns:
            rows = self._with_deaths(rows, f.col(RECORD_KEY), batch, spans, known)
            rows = self._dead_marked(rows)
        return rows

    def _dead_marked(self, rows: DataFrame) -> DataFrame:
        """`rows` with `_deleted` set if one of DEATHS is later by the timestamp itself."""
        dead = f.col(DELETED) | f.expr(self._outlived("_timestamp"))
        return rows.withColumn(DELETED, dead).drop(DEATHS)

    def _with_deaths(
        self, rows: DataFrame, key: Column, batch: DataFrame, spans: Spans, known: DataFrame
    ) -> DataFrame:
        """`rows` with the tombstones of `key`, in DEATHS."""
        wanted = batch.select(key.alias(RECORD_KEY))
        deaths = deaths_of(f.broadcast(wanted) if spans.rows <= FEW else wanted, known)
        return self._joined(rows, key, deaths)

    def _joined(self, rows: DataFrame, key: Column, deaths: DataFrame) -> DataFrame:
        named = deaths.withColumnRenamed(RECORD_KEY, _COLUMNS)
        return rows.join(named, key == f.col(quoted(_COLUMNS)), "left").drop(_COLUMNS)

    def _outlived(self, time: str, of: str = "") -> str:
        """The SQL condition that one of DEATHS is later than the record of alias `of`."""
        own, time = f"{of}{self._partition}", f"{of}{quoted(time)}"
        later = (
            f"CASE WHEN d.partition = {own} THEN d.offset > {of}_offset ELSE d.timestamp > {time} "
            f"OR (d.timestamp = {time} AND d.partition > {own}) END"
        )
        return f"coalesce(exists({quoted(DEATHS)}, d -> {later}), false)"

    def _marked_deleted(self, source: DataFrame, tombstones: DataFrame) -> DataFrame:
        """`source` with `_deleted` set if a later tombstone has the same record key."""
        return self._dead_marked(self._joined(source, f.col(RECORD_KEY), self._as_deaths(tombstones)))

    def _as_deaths(self, tombstones: DataFrame) -> DataFrame:
        """Those of a batch as (_key, DEATHS)."""
        place = zip(
            (self._partition, "_offset", quoted(_TIME)), ("partition", "offset", "timestamp"), strict=True
        )
        deaths = f.collect_list(f.struct(*(f.col(name).alias(other) for name, other in place)))
        return tombstones.groupBy(RECORD_KEY).agg(deaths.alias(DEATHS))

    def _collected(self, batch: DataFrame) -> tuple[KeyNotes, list[Record]] | None:
        """The records of a small batch; None if their keys have no exact notes."""
        present = [name.lower() for name in batch.columns]
        if any(key.lower() not in present for key in self._keys):
            return None
        if (notes := KeyNotes.of(batch, self._keys)) is None:
            return None
        columns_key = f.lit(None) if self._by_record_key else self._columns_as_key()
        records = collected(batch, notes, self._partition, columns_key)
        return None if records is None else (notes, records)

    def _change_few(self, batch: DataFrame, notes: KeyNotes, records: Collection[Record]) -> None:
        """Merges a small batch, which is stored and has these records."""
        keyed = last_within((one for one in records if None not in one.key), lambda one: one.key)
        known, dead = self._alive_few(batch.sparkSession, self._raised_few(batch, keyed))
        last = last_among(known, lambda one: one.key)
        # Those that have no columns delete the rows of their record's key.
        unkeyed = last_within(
            (one for one in records if one.deleted and None in one.key and one.record_key is not None),
            lambda one: one.record_key,
        )
        tombstones: dict[str | None, list[Record]] = {}
        for one in unkeyed:
            tombstones.setdefault(one.record_key, []).append(one)
        dead |= {one for one in last.values() if outlived(one.by_itself, tombstones.get(one.record_key, ()))}
        self._keep(batch, unkeyed)
        by_key = batch if self._by_record_key else batch.withColumn(RECORD_KEY, self._columns_as_key())
        self._keep(by_key, [one for one in last.values() if one.deleted or one.is_raised or one in dead])
        alive = [one for one in last.values() if not one.deleted and one not in dead]
        if self._open_rows is not None:
            rows = self._open_rows(batch.sparkSession)
            with settings(batch.sparkSession, ONE_TASK | PAGES):
                if self._replace(rows, batch, notes, last, tombstones, alive):
                    return
        if last:
            gone = f.col(DELETED) | ~f.expr(at_places(alive, self._partition))
            source = batch.where(at_places(last.values(), self._partition)).withColumn(DELETED, gone)
            source = self._timed(source, last.values())
            self._merge(source, notes.among(last.values(), "t.") if self._among_keys else None)
        if unkeyed:
            self._delete(
                self._timed(batch.where(at_places(unkeyed, self._partition)), unkeyed),
                among_record_keys(tombstones, "t.") if self._among_keys else None,
            )

    def _timed(self, rows: DataFrame, records: Collection[Record]) -> DataFrame:
        """`rows` with the times of these records."""
        return rows.withColumn(_TIME, f.expr(time_of_each(records, self._partition)))

    def _raised_few(self, batch: DataFrame, records: Collection[Record]) -> Collection[Record]:
        """The records after the rows of the table which they follow in their partition."""
        first = oldest(records)
        if not self._go_back(batch.sparkSession, first, newest(records)):
            return records
        followers = batch.where(at_places(records, self._partition))
        found = self._times_before(followers, first)
        *place, time = map(quoted, found.columns[len(self._keys) :])
        times = {
            (number, offset): before
            for number, offset, before in found.select(*place, f.unix_micros(time)).collect()
        }
        return [one.raised(times.get(one.place, one.timestamp)) for one in records]

    def _alive_few(
        self, session: SparkSession, records: Collection[Record]
    ) -> tuple[Collection[Record], set[Record]]:
        """The `survivors` of the tombstones that were read before."""
        known = self._tombstones.later_than(session, oldest(records))
        if known is None:
            return records, set()
        keys = {key for one in records for key in (one.record_key, one.columns_key) if key is not None}
        found = known.where(among_record_keys(keys)).select(
            f.hex("_key"), "partition", "offset", f.unix_micros("timestamp")
        )
        deaths: dict[str | None, list[Record]] = {}
        for key, *place in found.collect():
            deaths.setdefault(key, []).append(Record((), key, *place))
        return survivors(records, deaths, by_columns=not self._by_record_key)

    def _keep(self, batch: DataFrame, records: Collection[Record]) -> None:
        """Keeps the places of these for older records that are read later."""
        if records:
            rows = self._timed(batch.where(at_places(records, self._partition)), records)
            kept = rows.withColumn("_timestamp", f.col(quoted(_TIME)))
            self._tombstones.add(kept, self._partition, newest(records))

    def _replace(
        self,
        rows: DeltaVersion,
        batch: DataFrame,
        notes: KeyNotes,
        last: Mapping[Key, Record],
        tombstones: Mapping[str | None, Collection[Record]],
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
        # What is read of each row of the table counts, so the record's key is read only if it is needed.
        own = [*notes.columns(), f.expr(RECORD_KEY_NOTE) if tombstones else f.lit(None)]
        place = [
            f.coalesce(one, f.lit(_LAST)) for one in (self._partition, "_offset", f.unix_micros("_timestamp"))
        ]
        wanted = " OR ".join(f"({one})" for one in among)
        marked: dict[str, list[int]] = {}
        outdated = set()
        compared = rows.read().where(wanted).select(*own, *place, FILE, POSITION)
        # The limit is after the shuffle: Spark numbers each limit in its code, so that a scan with one is
        # compiled anew for each batch. Without the shuffle, it would look step by step, in several jobs.
        found = compared.repartition(1).limit(_MOST_ROWS + 1).collect()
        if len(found) > _MOST_ROWS:
            return False
        for *noted, number, offset, timestamp, file, position in found:
            key, record_key = tuple(noted[:-1]), noted[-1]
            row = Record(key, record_key, number, offset, timestamp)
            follower = last.get(key)
            if (follower and later(follower, row)) or outlived(row, tombstones.get(record_key, ())):
                marked.setdefault(file, []).append(position)
            if follower and not later(follower, row):
                outdated.add(follower)
        new = [one for one in alive if one not in outdated]
        inserted = batch.where(at_places(new, self._partition)).drop(DELETED) if new else None
        with settings(batch.sparkSession, INTERPRETED):
            return rows.replace(marked, inserted)

    def _merge(self, source: DataFrame, among: str | None = None) -> None:
        names = [quoted(name) for name in source.columns if name not in (DELETED, _TIME)]
        later = self._later("s", "t")
        same = " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in self._keys)
        if among is not None:
            same = f"{same} AND {among}"
        with view(source) as merged, _merging(source.sparkSession, among):
            source.sparkSession.sql(
                f"MERGE INTO {self._table} t USING {merged} s ON {same} "
                f"WHEN MATCHED AND ({later}) AND s.{DELETED} THEN DELETE "
                f"WHEN MATCHED AND ({later}) THEN "
                f"UPDATE SET {', '.join(f't.{name} = s.{name}' for name in names)} "
                f"WHEN NOT MATCHED AND NOT s.{DELETED} THEN "
                f"INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
            )

    def _delete(self, tombstones: DataFrame, among: str | None = None) -> None:
        same = f"t.{RECORD_KEY} = s.{RECORD_KEY}"
        if among is not None:
            same = f"{same} AND {among}"
        deaths = self._as_deaths(tombstones)
        with view(deaths) as merged, _merging(tombstones.sparkSession, among):
            tombstones.sparkSession.sql(
                f"MERGE INTO {self._table} t USING {merged} s ON {same} "
                f"WHEN MATCHED AND {self._outlived('_timestamp', 't.')} THEN DELETE"
            )


@dataclass(frozen=True)
class Spans:
    """Where a batch begins and ends in each partition, and its number of rows.

    Tombstones are the deletions that lack the key columns. Kept are the places of other deletions, and of
    values whose time is not their timestamp.
    """

    oldest: Places
    newest: Places
    newest_tombstones: Places
    newest_kept: Places
    values: int
    rows: int

    @classmethod
    def of(cls, rows: DataFrame, partition: str, keyed: str = "false") -> Spans:
        """`keyed` is the condition that a row has the key columns."""
        timed = _TIME in rows.columns
        found = rows.groupBy(
            f.col(partition).alias("partition"),
            f.col(DELETED).alias("deleted"),
            f.expr(keyed).alias("keyed"),
            f.expr(_RAISED if timed else "false").alias("raised"),
        ).agg(
            f.struct(f.min("_offset"), f.min(f.unix_micros("_timestamp"))).alias("oldest"),
            f.struct(f.max("_offset"), f.max(f.unix_micros(quoted(_TIME) if timed else "_timestamp"))).alias(
                "newest"
            ),
            f.count(f.lit(1)).alias("rows"),
        )
        listed = found.collect()

        def newest(of: Callable[[Row], bool]) -> Places:
            return ends(((row.partition, Place(*row.newest)) for row in listed if of(row)), max)

        return cls(
            ends(((row.partition, Place(*row.oldest)) for row in listed), min),
            newest(lambda row: True),
            newest(lambda row: row.deleted and not row.keyed),
            newest(lambda row: row.raised or (row.deleted and row.keyed)),
            sum(row.rows for row in listed if not row.deleted),
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
