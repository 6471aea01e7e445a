"""A table that a pipeline writes, one batch after the other.

Each format is in a module of its own.

A row is the parsed columns and, from the record:

    _topic STRING, _partition INT, _offset BIGINT, _timestamp TIMESTAMP, _key BINARY,
    _headers ARRAY<STRUCT<key STRING, value BINARY>>

**Exactly once.** Spark runs a batch again, with the same id and the same rows, if the driver dies before it
commits the batch in its checkpoint. `append` and `upsert` may be killed between any two steps. Repeated with
the same batch, they leave the table as if they had run once, and no reader ever sees part of a batch (except
that an upsert by columns makes two commits, `upserts.py`). Batches come in order. The commit of an append
identifies its batch (`batch.py`). A batch whose number the table has is skipped if it has the same offsets,
and refused if not.

Statements run in the session of the rows: `foreachBatch` gets a clone of the session that opened the table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import ClassVar, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.reset_command import reset_command
from kafkapy.pipeline.stores import HadoopFiles
from kafkapy.pipeline.table_target import TableTarget
from kafkapy.pipeline.tables.batch import Batch, differences
from kafkapy.pipeline.tables.catalog_table import CatalogTable
from kafkapy.pipeline.tables.commit import Commit
from kafkapy.pipeline.tables.evolution import ChangedColumn, Evolution, fitted
from kafkapy.pipeline.tables.few_records import FEW
from kafkapy.pipeline.tables.latest_times import LatestTimes
from kafkapy.pipeline.tables.old_timestamps import MICROS, files_with_int96
from kafkapy.pipeline.tables.partitioning import PartitionField, Partitioning
from kafkapy.pipeline.tables.small_files import (
    Merge,
    TierCount,
    batches_after_merge,
    batches_until_due,
    due_merge,
)
from kafkapy.pipeline.tables.sql import ddl, quoted, settings
from kafkapy.pipeline.tables.tombstones import Tombstones
from kafkapy.pipeline.tables.widening import Widening

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
RECORD_COLUMNS: Final = StructType(
    [
        StructField("_topic", StringType()),
        StructField("_partition", IntegerType()),
        StructField("_offset", LongType()),
        StructField("_timestamp", TimestampType()),
        StructField("_key", BinaryType()),
        StructField("_headers", ArrayType(_HEADER)),
    ]
)


@dataclass(frozen=True)
class Merged:
    """How many small files were merged, and after how many batches to look again."""

    files: int
    look_after: int


class Table(ABC):
    """A table of one format at one location.

    The first batch creates it.
    """

    format: ClassVar[str]
    # A stream's session has adaptive execution off, so a MERGE would write one file per shuffle partition. It
    # is safe to switch it on: a batch is a separate query, and the stream does not depend on its plan.
    session_settings: ClassVar[Mapping[str, str]] = {"spark.sql.adaptive.enabled": "true", **MICROS}
    derives_columns: ClassVar[bool] = True
    """Whether a partition transform needs a column of its own."""

    def __init__(
        self, spark: SparkSession, target: TableTarget, partitioning: Partitioning, widening: Widening
    ) -> None:
        path = target.local_path
        self.spark = spark
        self.folder = target.folder.rstrip("/") if path is None else str(path.absolute())
        """Where the pipeline's state is: in the table's own folder, unless it is in a catalog."""
        if path is not None and target.folder.startswith("file:"):
            self.folder = f"file://{self.folder}"
        self.location = target.location if target.in_catalog else self.folder
        self.partitioning, self._widening = partitioning, widening
        self._merge_mode: str | None = None
        self.name = f"{target.format}:{self.location}"
        self._catalog = CatalogTable(spark, target) if target.in_catalog else None

    @cached_property
    def _latest_times(self) -> LatestTimes:
        return LatestTimes()

    @cached_property
    def _tombstones(self) -> Tombstones:
        return Tombstones(HadoopFiles(self.folder))

    def check_place(self) -> None:
        """Raises PipelineError if the place of the table has something else, or is not there."""
        if self._catalog is not None:
            self._catalog.check()

    # -- reading

    def exists(self) -> bool:
        return self._has_files() if self._catalog is None else self._catalog.exists()

    def schema(self) -> StructType:
        """The columns of the rows, without those that partition transforms added."""
        return self._without_derived(self._stored_schema(self.spark))

    def read(self) -> DataFrame:
        """All rows, with the columns of `schema`."""
        derived = {field.name.lower() for field in self._derived()}
        rows = self._read(self.spark)
        return rows.select(*(quoted(name) for name in rows.columns if name.lower() not in derived))

    def check_shape(self, schema: StructType | None = None) -> None:
        """Raises PipelineError if the table exists and the pipeline cannot write to it.

        The table must have been created by a pipeline with this partitioning, and must accept rows of
        `schema`, the columns of the data.
        """
        if schema is not None:
            self._check_columns(StructType([*schema, *RECORD_COLUMNS]))
        if not self.exists():
            return
        stored = self._stored_schema(self.spark)
        if lacking := Evolution(stored, RECORD_COLUMNS, self.name, self._widening).added:
            raise PipelineError(
                f"{self.name}: this is not a pipeline's table, it lacks the column {lacking[0].path[0]}; "
                "name an empty or a new folder"
            )
        present = self._present_partitioning()
        if present != self._wanted_partitioning():
            raise PipelineError(
                f"{self.name}: the table is partitioned by {', '.join(present) or 'nothing'}, not by "
                f"{', '.join(self._wanted_partitioning()) or 'nothing'}; keep partition_by as it was, "
                "or write to a new table"
            )
        if schema is not None:
            self._check_widened(Evolution(stored, schema, self.name, self._widening))

    # -- writing

    def append(self, rows: DataFrame, batch: Batch) -> None:
        """Appends a batch, unless the table has it.

        `rows` has the parsed columns and RECORD_COLUMNS.

        Raises PipelineError if the table has another batch with that number.
        """
        with settings(rows.sparkSession, self.session_settings):
            if not self._has(rows, batch):
                self._append(self._in_few_files(self._prepare(rows), batch), batch)

    def upsert(self, rows: DataFrame, keys: Sequence[str], records: int | None = None) -> None:
        """Updates the table to the last record of each key.

        `keys` are columns, or empty for the record's key. The last column of `rows` is `_deleted BOOLEAN`,
        which is true for a tombstone, whose parsed columns are null. `records` is the most rows that there
        can be, if that is known.
        """
        self.check_upserts(rows.schema)
        few = records is not None and records <= FEW
        with settings(rows.sparkSession, self.session_settings):
            self._upsert(rows.coalesce(1) if few else rows, keys, few)

    def check_upserts(self, columns: StructType) -> None:
        """Raises PipelineError if rows with these columns can only be appended."""
        if problem := self._upsert_problem(columns):
            raise PipelineError(f"{self.name}: {problem}")

    def set_merge_mode(self, mode: str | None) -> None:
        """Sets how upserts change the table's files, from now on.

        `copy-on-write` writes each file that has one of the rows again. `merge-on-read` marks the rows as
        deleted, and writes the new ones into small files. Without a mode, a table stays as it is, and a new
        one gets the default of its format.
        """
        self._merge_mode = mode
        if mode is not None and self.exists():
            self._keep_merge_mode(mode)

    @abstractmethod
    def check_replaceable(self) -> None:
        """Raises PipelineError if the format cannot replace rows in one commit."""

    def replace(self, places: DataFrame, rows: DataFrame) -> None:
        """Deletes the rows at `places` and inserts `rows`, in one commit.

        `places` has some of RECORD_COLUMNS, `rows` has the columns of `schema`.
        """
        with settings(self.spark, self.session_settings):
            self._replace(places, self._prepare(rows.withColumn("_deleted", f.lit(False)), marked=True))

    def trim(self, positions: Mapping[int, int]) -> None:
        """Deletes the rows at or after the given offsets.

        Other partitions are not changed.
        """
        with settings(self.spark, self.session_settings):
            self._trim(positions)

    def maintain(self, retain: timedelta) -> list[str]:
        """Merges small files, deletes old ones, and returns lines that say what was done.

        A file is deleted if no version of the table that is younger than `retain` needs it. No batch may be
        written meanwhile.
        """
        with settings(self.spark, self.session_settings):
            merged = self._merge()
        return [*merged, *self.expire(self.spark, retain), *self._clean(retain)]

    def merge_small_files(self, session: SparkSession) -> Merged:
        """Merges the files of a tier if there are many of them (`small_files.py`).

        It is meant for the time between two batches: it takes seconds, and reads no large file. Rows that are
        marked as deleted are left out of the new files.
        """
        with settings(session, self.session_settings):
            counts = self._small_files(session)
            if (due := due_merge(counts)) is None:
                return Merged(0, batches_until_due(counts))
            return Merged(self._merge_small(session, due), batches_after_merge())

    def expire(self, session: SparkSession, retain: timedelta) -> list[str]:
        """Deletes files that no version of the table needs that is younger than `retain`.

        Returns lines that say what was done.
        """
        with settings(session, self.session_settings):
            self._tombstones.drop(session, datetime.now(UTC) - retain)
            return self._expire(session, retain)

    def files_to_rewrite(self) -> list[str]:
        """The files whose timestamps many readers misread, until `maintain` rewrites them."""
        return files_with_int96(self.spark, self._files_of_sparks_writer())

    def commits_with(self, condition: str) -> list[Commit]:
        """For each row that the SQL condition is true for: the commit that wrote its file.

        Files may have been merged or rewritten since the row was inserted.
        """
        files = self._files_with(condition)
        commits = {file: replace(self._commit_of(file), file=file) for file in dict.fromkeys(files)}
        return [commits[file] for file in files]

    def batch_with(self, partition: int, offset: int) -> Batch | None:
        """The last appended batch with that offset.

        None if there is none, or the table has forgotten it.
        """
        known = (batch for batch in self._batches(self.spark) if batch is not None)
        return next((batch for batch in known if batch.has(partition, offset)), None)

    # -- implemented by each format

    @abstractmethod
    def _has_files(self) -> bool:
        """Whether the table's folder has a table."""

    @abstractmethod
    def _upsert(self, rows: DataFrame, keys: Sequence[str], few: bool) -> None:
        """`few` means that there are up to FEW rows, in one partition."""

    @abstractmethod
    def _keep_merge_mode(self, mode: str) -> None:
        """Writes the mode into the properties of the table, which exists."""

    @abstractmethod
    def _replace(self, places: DataFrame, rows: DataFrame) -> None: ...

    @abstractmethod
    def _trim(self, positions: Mapping[int, int]) -> None: ...

    @abstractmethod
    def _merge(self) -> list[str]:
        """Merges all small files, and returns lines that say what was done."""

    @abstractmethod
    def _small_files(self, session: SparkSession) -> list[TierCount]:
        """The small files of the last version, by partition and tier."""

    @abstractmethod
    def _merge_small(self, session: SparkSession, merge: Merge) -> int:
        """Merges some of the small files, and returns how many."""

    @abstractmethod
    def _expire(self, session: SparkSession, retain: timedelta) -> list[str]: ...

    def _clean(self, retain: timedelta) -> list[str]:
        """Deletes what is in no version of the table, and returns lines that say what was done."""
        return []

    @abstractmethod
    def _read(self, session: SparkSession) -> DataFrame: ...

    @abstractmethod
    def _files_of_sparks_writer(self) -> list[str]:
        """The paths of the table's files that Spark's own writer of Parquet has written."""

    @abstractmethod
    def _files_with(self, condition: str) -> list[str]:
        """For each row that the condition is true for: the path of its file."""

    @abstractmethod
    def _commit_of(self, file: str) -> Commit:
        """The commit that added a file."""

    @abstractmethod
    def _present_partitioning(self) -> list[str]: ...

    @abstractmethod
    def _create(self, empty: DataFrame) -> StructType:
        """Creates a table with these columns, and returns its schema."""

    @abstractmethod
    def _add_columns(self, session: SparkSession, added: Sequence[ChangedColumn]) -> None: ...

    @abstractmethod
    def _change_types(self, session: SparkSession, widened: Sequence[ChangedColumn]) -> None:
        """Gives columns wider types, which `Widening` allows for the format."""

    @abstractmethod
    def _append(self, rows: DataFrame, batch: Batch) -> None: ...

    @abstractmethod
    def _batches(self, session: SparkSession) -> Iterator[Batch | None]:
        """The appended batches, newest first.

        A last None means that the table no longer knows the older ones.
        """

    def _problem(self, schema: StructType) -> str | None:
        """Why the format cannot have columns with these names; None if it can."""
        return None

    def _upsert_problem(self, columns: StructType) -> str | None:
        """Why rows with these columns can only be appended; None if they can be upserted too."""
        return None

    def _wanted_partitioning(self) -> list[str]:
        return self.partitioning.names

    # -- common to all formats

    def _has(self, rows: DataFrame, batch: Batch, *, numbered: bool = False) -> bool:
        """Whether the batch is in the table.

        `numbered` means that the table has this number or a later one. Raises PipelineError if another batch
        has the number.
        """
        forgotten = False
        for written in self._batches(rows.sparkSession):
            if written is None:
                forgotten = True
                break
            if written.app_id != batch.app_id or written.id < batch.id:
                break
            if written.id == batch.id and written.offsets is not None:
                if written.offsets != batch.offsets:
                    raise self._planned_anew(batch, differences(batch.offsets or {}, written.offsets))
                return True
            numbered = True
        if not (numbered or forgotten):
            return False
        present, planned = self._present(rows)
        if present == planned:
            return True
        if present or numbered:
            raise self._planned_anew(batch, f"the table has {present:,} of its {planned:,} rows")
        return False

    def _present(self, rows: DataFrame) -> tuple[int, int]:
        """How many of the rows the table has, by their offsets, and the number of rows."""
        place = ["_partition", "_offset"]
        stored = self._read(rows.sparkSession).select(*place).distinct().withColumn("_present", f.lit(True))
        joined = rows.select(*place).join(stored, place, "left")
        present, planned = joined.agg(f.count("_present"), f.count(f.lit(1))).collect()[0]
        return present, planned

    def _planned_anew(self, batch: Batch, how: str) -> PipelineError:
        return PipelineError(
            f"{self.name}: batch {batch.id} is planned with other offsets than it was written with ({how}): "
            "the checkpoint was restored from an older copy, or another driver uses it; nothing was written. "
            "To delete the rows after the checkpoint's position and read them again: "
            f"{reset_command(self.folder, 'available')}"
        )

    def _stored_schema(self, session: SparkSession) -> StructType:
        return self._read(session).schema

    def _derived(self) -> list[PartitionField]:
        """The fields of partition transforms that have their own column."""
        return self.partitioning.derived if self.derives_columns else []

    def _without_derived(self, schema: StructType) -> StructType:
        derived = {field.name.lower() for field in self._derived()}
        return StructType([field for field in schema if field.name.lower() not in derived])

    def _prepare(self, rows: DataFrame, *, marked: bool = False) -> DataFrame:
        """`rows` with exactly the columns of the table.

        Creates the table or adds columns to it first. If `marked`, the rows have the column `_deleted` too.
        """
        mark = [rows.schema[-1]] if marked else []
        plain = StructType(rows.schema[:-1] if marked else list(rows.schema))
        self._check_columns(plain, [field.name for field in mark])
        for field in self._derived():
            kind = ddl(_field_of(plain, field.column, self.name).dataType)
            rows = rows.withColumn(field.name, f.expr(field.expression(quoted(field.column), kind)))
            plain = StructType([*plain, rows.schema[field.name]])
        if self.exists():
            stored = self._stored_schema(rows.sparkSession)
        else:
            no_rows = rows.sparkSession.range(0).select()
            stored = self._create(
                fitted(no_rows, Evolution(StructType(), plain, self.name, self._widening).schema)
            )
        evolution = Evolution(stored, plain, self.name, self._widening)
        if evolution.widened:
            self._check_widened(evolution)
            self._change_types(rows.sparkSession, evolution.widened)
        if evolution.added:
            self._add_columns(rows.sparkSession, evolution.added)
        return fitted(rows, StructType([*evolution.schema, *mark]))

    def _check_widened(self, evolution: Evolution) -> None:
        names = {one.path[0].lower() for one in evolution.widened}
        for field in self._derived():
            if field.transform == "bucket" and field.column.lower() in names:
                raise PipelineError(
                    f"{self.name}: the column {field.column} cannot become wider: partition_by {field} would "
                    "put the same value into another bucket; write to a new table"
                )

    def _check_columns(self, schema: StructType, taken: Sequence[str] = ()) -> None:
        if problem := self._problem(schema):
            raise PipelineError(f"{self.name}: {problem}")
        seen = {name: name for name in taken}
        derived = {field.name.lower(): str(field) for field in self._derived()}
        for name in schema.names:
            if name.lower() in seen:
                why = "are two" if name == seen[name.lower()] else "differ only in case"
                raise PipelineError(
                    f"{self.name}: the columns {seen[name.lower()]} and {name} {why}, and Spark cannot "
                    "distinguish them; give the format a schema with other names"
                )
            if name.lower() in derived:
                raise PipelineError(
                    f"{self.name}: the column {name} of the data has the name that partition_by "
                    f"{derived[name.lower()]} needs; give the format a schema with another name"
                )
            seen[name.lower()] = name
        for field in self.partitioning.fields:
            field.check_type(ddl(_field_of(schema, field.column, self.name).dataType))

    def _in_few_files(self, rows: DataFrame, batch: Batch) -> DataFrame:
        """Limits files to what their size needs, or about one per value of partition columns."""
        if self.partitioning.fields:
            return rows.hint("rebalance", *(f.col(quoted(name)) for name in self.partitioning.names))
        return in_few_files(rows, batch.records, rows.sparkSession.sparkContext.master)


def in_few_files(rows: DataFrame, records: int | None, master: str) -> DataFrame:
    """The rows in as many partitions as they should have files.

    `records` is their number, if it is known. On a cluster, executors may come and go: a limit by the cores
    of the moment would make few tasks read the topic. So the rows are read in as many tasks as there are, and
    shuffled into files. A local Spark always has the same cores, and saves the shuffle.
    """
    if records is not None and records <= FEW:  # one task reads and writes them as fast as many
        return rows.coalesce(1)
    if master.startswith("local"):
        return rows.coalesce(rows.sparkSession.sparkContext.defaultParallelism)
    return rows.hint("rebalance")


def spoken(retain: timedelta) -> str:
    hours = retain / timedelta(hours=1)
    return f"{retain.days} days" if hours % 24 == 0 else f"{hours:g} hours"


def _field_of(schema: StructType, name: str, table: str) -> StructField:
    for field in schema:
        if field.name.lower() == name.lower():
            return field
    raise PipelineError(
        f"{table}: partition_by: the data has no column {name}; it has {', '.join(schema.names[:20])}"
    )
