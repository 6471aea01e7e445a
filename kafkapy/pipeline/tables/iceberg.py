"""Tables in Apache Iceberg's format, at a path or in a catalog (`catalog_table.py`).

A table at a path is in a Hadoop catalog whose warehouse is the parent folder. Readers use the path
(`spark.read.format("iceberg").load(path)`); SQL's MERGE, ALTER and CALL need the catalog. It is configured in
a session on first use, without a cache: the session within foreachBatch is a clone, and a cached table would
not show the last commit.

An append carries `kafkapy.app-id`, `kafkapy.batch-id` and `kafkapy.offsets` in the summary of its snapshot,
in the same commit as the rows. Before a batch is written, the last batches are read from the ancestors of the
current snapshot. `maintain` stores the last batch in the table's properties before it expires snapshots. If
another program has expired the snapshot, the table is searched for the batch's rows. An upsert is idempotent
by its condition (`upserts.py`).

By default a MERGE marks the rows that it deletes in files of their own (`merge-on-read`, position deletes of
the format's version 2), which readers of Iceberg know. With `copy-on-write`, it writes each file that has one
of these rows again.

The record's partition is the column `_kafka_partition`, since Iceberg reserves the name `_partition`.

A catalog makes commits atomic. A commit to a table at a path renames metadata/vN.metadata.json, atomically on
a local disk and HDFS, but not on an object store, where only one driver may write at a time, as is the case
for a pipeline.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from kafkapy.pipeline.java_classes import java_class
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.stores import HadoopFiles
from kafkapy.pipeline.tables.batch import Batch
from kafkapy.pipeline.tables.commit import Commit
from kafkapy.pipeline.tables.evolution import ChangedColumn
from kafkapy.pipeline.tables.partitioning import PartitionField
from kafkapy.pipeline.tables.replacing import replace_rows
from kafkapy.pipeline.tables.reserved_names import ICEBERGS_PARTITION, RESERVED
from kafkapy.pipeline.tables.small_files import Merge, TierCount, tier_of
from kafkapy.pipeline.tables.sql import ddl, dotted, quoted, text
from kafkapy.pipeline.tables.table import Table, spoken
from kafkapy.pipeline.tables.trimming import at_or_after
from kafkapy.pipeline.tables.upserts import Upsert

_MARKS: Final = "marks"  # no partition: those are written as JSON, or empty
_APP_ID: Final = "kafkapy.app-id"
_BATCH_ID: Final = "kafkapy.batch-id"
_MERGE_MODE: Final = "write.merge.mode"
_OFFSETS: Final = "kafkapy.offsets"
# remove_orphan_files refuses a shorter time: younger files may belong to an unfinished commit.
_ORPHAN_AGE: Final = timedelta(days=1, minutes=5)


class IcebergTable(Table):
    format = "iceberg"
    derives_columns = False

    def _has_files(self) -> bool:
        files = HadoopFiles(self.location)
        # A killed creation may lack the version hint; Iceberg finds the version without it.
        return files.exists("metadata/version-hint.text") or any(
            name.endswith(".metadata.json") for name in files.names("metadata")
        )

    def _upsert(self, rows: DataFrame, keys: Sequence[str], few: bool) -> None:
        prepared = _stored_names(self._prepare(rows, marked=True))
        table = self._in_catalog(rows.sparkSession)
        marks = self._loaded(rows.sparkSession).properties().get(_MERGE_MODE) == "merge-on-read"
        upsert = Upsert(
            table,
            keys,
            self._tombstones,
            self._latest_times,
            ICEBERGS_PARTITION,
            few=few,
            among_keys=marks,
        )
        upsert.run(prepared)

    def _keep_merge_mode(self, mode: str) -> None:
        if self._loaded(self.spark).properties().get(_MERGE_MODE) != mode:
            self._set_properties({_MERGE_MODE: mode})

    def check_replaceable(self) -> None:
        """Does nothing: a MERGE replaces rows in one commit."""

    def _replace(self, places: DataFrame, rows: DataFrame) -> None:
        replace_rows(self._in_catalog(rows.sparkSession), _stored_names(places), _stored_names(rows))

    def _trim(self, positions: Mapping[int, int]) -> None:
        if condition := at_or_after(positions, ICEBERGS_PARTITION):
            self.spark.sql(f"DELETE FROM {self._in_catalog(self.spark)} WHERE {condition}")

    def _merge(self) -> list[str]:
        # A file is rewritten for a single mark in it, too.
        rewritten = self._call(self.spark, "rewrite_data_files", {"delete-file-threshold": "1"})
        self._merge_marks(self.spark)
        return [
            f"merged {rewritten['rewritten_data_files_count']} files into "
            f"{rewritten['added_data_files_count']} (rewrite_data_files)"
        ]

    def _merge_marks(self, session: SparkSession) -> int:
        """Merges the files of marks, and returns how many.

        It drops marks in files that are no more.
        """
        merged = self._call(session, "rewrite_position_delete_files", {"rewrite-all": "true"})
        return int(merged["rewritten_delete_files_count"])

    def _small_files(self, session: SparkSession) -> list[TierCount]:
        """The small files of the last version, by partition and tier.

        Those of marks count as a partition of their own (`_MARKS`). Each data file with marks keeps one file
        of them when they are merged, so these are left out.
        """
        if (snapshot := self._loaded(session).currentSnapshot()) is None:
            return []
        summary = snapshot.summary()
        files = session.table(f"{self._in_catalog(session)}.files")
        partition = "to_json(partition)" if self.partitioning.fields else "''"
        tiers = files.where("content = 0").groupBy(
            f.expr(partition).alias("partition"), f.expr(tier_of("file_size_in_bytes")).alias("tier")
        )
        found = tiers.agg(f.count(f.lit(1)), f.sum("file_size_in_bytes")).where("tier IS NOT NULL")
        data, marks = (int(summary.get(f"total-{kind}-files") or 0) for kind in ("data", "delete"))
        return [*(TierCount(*row) for row in found.collect()), TierCount(_MARKS, 0, max(marks - data, 0), 0)]

    def _merge_small(self, session: SparkSession, merge: Merge) -> int:
        if merge.partitions == (_MARKS,):
            return self._merge_marks(session)
        options = {
            "min-file-size-bytes": str(merge.below),
            "min-input-files": str(merge.many),
            # A large file is not written again, however many of its rows are marked.
            "delete-ratio-threshold": "1.0",
        }
        return int(self._call(session, "rewrite_data_files", options)["rewritten_data_files_count"])

    def _expire(self, session: SparkSession, retain: timedelta) -> list[str]:
        self._remember_last_batch(session)
        oldest = _timestamp(datetime.now(UTC) - retain)
        expired = self._call(session, "expire_snapshots", more=f", older_than => {oldest}, retain_last => 1")
        deleted = sum(value for name, value in expired.items() if name.startswith("deleted_") and value)
        return [
            f"deleted {deleted} files that no snapshot of the last {spoken(retain)} needs (expire_snapshots)"
        ]

    def _clean(self, retain: timedelta) -> list[str]:
        table = self._in_catalog(self.spark)
        oldest = _timestamp(datetime.now(UTC) - max(retain, _ORPHAN_AGE))
        # A catalog may keep files where only Iceberg's own client reaches them, and not Hadoop's.
        by = "" if self._catalog is None else ", prefix_listing => true"
        orphans = self.spark.sql(
            f"CALL {table.partition('.')[0]}.system.remove_orphan_files("
            f"table => {text(table)}, older_than => {oldest}{by})"
        )
        return [f"deleted {orphans.count()} files that no snapshot contains (remove_orphan_files)"]

    def _call(
        self, session: SparkSession, procedure: str, options: Mapping[str, str] | None = None, more: str = ""
    ) -> dict[str, Any]:
        table = self._in_catalog(session)
        if options is not None:
            listed = ", ".join(text(one) for pair in options.items() for one in pair)
            more = f", options => map({listed})"
        called = f"CALL {table.partition('.')[0]}.system.{procedure}(table => {text(table)}{more})"
        return dict(session.sql(called).head().asDict())

    # -- the catalog

    def _in_catalog(self, session: SparkSession) -> str:
        """The table's name in SQL statements of this session."""
        if self._catalog is not None:
            return self._catalog.in_session(session)
        parent, _, name = self.location.rpartition("/")
        catalog = f"kafkapy_{zlib.crc32(parent.encode()):08x}"
        prefix = f"spark.sql.catalog.{catalog}"
        if session.conf.get(prefix, None) is None:
            session.conf.set(f"{prefix}.type", "hadoop")
            session.conf.set(f"{prefix}.warehouse", parent or "/")
            session.conf.set(f"{prefix}.cache-enabled", "false")
            session.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
        return f"{catalog}.{quoted(name)}"

    def _loaded(self, session: SparkSession) -> Any:
        """Iceberg's Java object for the table."""
        spark3_util = java_class(session, "org.apache.iceberg.spark.Spark3Util")
        return spark3_util.loadIcebergTable(session._jsparkSession, self._in_catalog(session))

    # -- exactly once

    def _append(self, rows: DataFrame, batch: Batch) -> None:
        writer = _stored_names(rows).writeTo(self._in_catalog(rows.sparkSession))
        for name, value in _properties(batch).items():
            writer = writer.option(f"snapshot-property.{name}", value)
        writer.append()

    def _batches(self, session: SparkSession) -> Iterator[Batch | None]:
        if not self.exists():
            return
        table = self._loaded(session)
        snapshot, parent = table.currentSnapshot(), None
        while snapshot is not None:
            if _BATCH_ID in snapshot.summary():
                yield _batch(snapshot.summary(), str(snapshot.snapshotId()))
            parent = snapshot.parentId()
            snapshot = None if parent is None else table.snapshot(parent)
        if parent is not None:
            if _BATCH_ID in table.properties():
                yield _batch(table.properties())
            yield None

    def _remember_last_batch(self, session: SparkSession) -> None:
        last = next(self._batches(session), None)
        if last is not None:
            self._set_properties(_properties(last))

    def _set_properties(self, properties: Mapping[str, str]) -> None:
        values = ", ".join(f"{text(name)} = {text(value)}" for name, value in properties.items())
        self.spark.sql(f"ALTER TABLE {self._in_catalog(self.spark)} SET TBLPROPERTIES ({values})")

    # -- the table

    def _read(self, session: SparkSession) -> DataFrame:
        return session.table(self._in_catalog(session)).withColumnRenamed(ICEBERGS_PARTITION, "_partition")

    def _files_with(self, condition: str) -> list[str]:
        stored = re.sub(r"\b_partition\b", ICEBERGS_PARTITION, condition)
        rows = self.spark.table(self._in_catalog(self.spark)).where(stored)
        return [path for (path,) in rows.select("_file").collect()]

    def _commit_of(self, file: str) -> Commit:
        table = self._in_catalog(self.spark)
        added = self.spark.table(f"{table}.entries").where(f.col("data_file.file_path") == file)
        ids = [number for (number,) in added.where("status < 2").select("snapshot_id").collect()]
        if not ids:
            return Commit()
        known = self.spark.table(f"{table}.snapshots").where(f"snapshot_id = {ids[0]}")
        told = known.select("operation", "committed_at").head()
        if told is None:
            return Commit(str(ids[0]))
        return Commit(
            str(ids[0]), told.operation, told.committed_at.astimezone(UTC).isoformat(timespec="milliseconds")
        )

    def _problem(self, schema: StructType) -> str | None:
        for name in schema.names:
            if name.lower() in RESERVED["iceberg"]:
                return (
                    f"Iceberg reserves the column name {name}; "
                    "give the format a schema with another name, or write delta:PATH"
                )
        return None

    def _in_few_files(self, rows: DataFrame, batch: Batch) -> DataFrame:
        # For a partitioned table, Iceberg itself groups the rows of a partition.
        return rows if self.partitioning.fields else super()._in_few_files(rows, batch)

    def _create(self, empty: DataFrame) -> StructType:
        writer = _stored_names(empty).writeTo(self._in_catalog(empty.sparkSession)).using("iceberg")
        writer = writer.tableProperty("format-version", "2")
        writer = writer.tableProperty(_MERGE_MODE, self._merge_mode or "merge-on-read")
        # Otherwise each batch would leave a metadata file.
        writer = writer.tableProperty("write.metadata.delete-after-commit.enabled", "true")
        if self._catalog is not None:
            for name, value in self._catalog.first_properties.items():
                writer = writer.tableProperty(name, value)
        if fields := self.partitioning.fields:
            writer = writer.partitionedBy(*map(_transform, fields))
        writer.create()
        return self._stored_schema(empty.sparkSession)

    def _add_columns(self, session: SparkSession, added: Sequence[ChangedColumn]) -> None:
        columns = ", ".join(f"{dotted(one.path)} {ddl(one.kind)}" for one in added)
        session.sql(f"ALTER TABLE {self._in_catalog(session)} ADD COLUMNS ({columns})")

    def _change_types(self, session: SparkSession, widened: Sequence[ChangedColumn]) -> None:
        table = self._in_catalog(session)
        for one in widened:
            session.sql(f"ALTER TABLE {table} ALTER COLUMN {dotted(one.path)} TYPE {ddl(one.kind)}")

    def _files_of_sparks_writer(self) -> list[str]:
        return []  # Iceberg has a writer of its own

    def _present_partitioning(self) -> list[str]:
        table = self._loaded(self.spark)
        fields = table.spec().fields()
        return [
            _shown(str(field.transform().toString()), table.schema().findColumnName(field.sourceId()))
            for field in (fields.get(number) for number in range(fields.size()))
        ]

    def _wanted_partitioning(self) -> list[str]:
        return [str(field) for field in self.partitioning.fields]


def _properties(batch: Batch) -> dict[str, str]:
    """The batch as entries of a snapshot's summary or of a table's properties."""
    known = {_APP_ID: batch.app_id, _BATCH_ID: str(batch.id)}
    if batch.offsets is not None:
        known[_OFFSETS] = json.dumps(batch.offsets, separators=(",", ":"))
    return known


def _batch(properties: Any, version: str = "") -> Batch:
    offsets = json.loads(properties[_OFFSETS]) if _OFFSETS in properties else None
    return Batch.from_mapping(
        {"app_id": properties[_APP_ID], "batch_id": properties[_BATCH_ID], "offsets": offsets}, version
    )


def _stored_names(rows: DataFrame) -> DataFrame:
    return rows.withColumnRenamed("_partition", ICEBERGS_PARTITION)


def _transform(field: PartitionField) -> Column:
    column = f.col(quoted(ICEBERGS_PARTITION if field.column == "_partition" else field.column))
    match field.transform:
        case "identity":
            return column
        case "bucket":
            return f.partitioning.bucket(field.buckets, column)
        case "year":
            return f.partitioning.years(column)
        case "month":
            return f.partitioning.months(column)
        case "day":
            return f.partitioning.days(column)
        case "hour":
            return f.partitioning.hours(column)
    raise PipelineError(f"partition_by: Iceberg has no {field}")


def _shown(transform: str, column: str) -> str:
    """Iceberg's `bucket[4]` of a column, as PartitionField writes it."""
    column = "_partition" if column == ICEBERGS_PARTITION else column
    if transform == "identity":
        return column
    name, _, parameter = transform.partition("[")
    return f"{name}({parameter.rstrip(']')}, {column})" if parameter else f"{name}({column})"


def _timestamp(moment: datetime) -> str:
    return f"TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S.%f} UTC'"
