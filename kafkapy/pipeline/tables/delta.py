"""Tables in Delta Lake's format.

An append carries the transaction identifier of the pipeline (`txnAppId`, the incarnation) with the batch id
as its version, and the batch as `userMetadata`, in the same commit as the rows. Delta silently skips a batch
whose version is not above the last one. So the log is read after the commit too, in case another driver
committed in between. An upsert is idempotent by its condition (`upserts.py`).

**Merges.** By default a MERGE writes each file that has one of its rows again (`copy-on-write`), as every
reader takes it. With `merge-on-read`, Delta marks the rows in deletion vectors, which not all readers know. A
table that has once had this mode keeps the reader feature `deletionVectors`.

A MERGE of a large batch writes each file in the order of the keys, since it joins sorted rows. So tables with
marks are written in small pages: a small upsert reads only those whose range has one of its keys.

Column names are limited to those that Delta allows without column mapping, which old readers do not support.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import ClassVar, Final
from urllib.parse import unquote

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from kafkapy.pipeline.java_classes import java_class
from kafkapy.pipeline.stores import HadoopFiles
from kafkapy.pipeline.tables.batch import Batch
from kafkapy.pipeline.tables.catalog_table import CatalogTable
from kafkapy.pipeline.tables.commit import Commit
from kafkapy.pipeline.tables.delta_log import DeltaLog, version_of
from kafkapy.pipeline.tables.delta_version import METADATA, DeltaVersion
from kafkapy.pipeline.tables.evolution import ChangedColumn
from kafkapy.pipeline.tables.reader import reader
from kafkapy.pipeline.tables.replacing import replace_rows
from kafkapy.pipeline.tables.small_files import Merge, TierCount, counted, tier_of
from kafkapy.pipeline.tables.sql import ddl, dotted, quoted, settings, text
from kafkapy.pipeline.tables.table import Table, spoken
from kafkapy.pipeline.tables.trimming import at_or_after
from kafkapy.pipeline.tables.upserts import Upsert

_DELTA: Final = "spark.databricks.delta"
_MARKS: Final = "delta.enableDeletionVectors"
_SMALL_PAGES: Final = {"parquet.page.row.count.limit": "2000"}
"""With a tenth of the default, whole tables take a tenth more CPU time to read."""
_REFUSED: Final = re.compile(r"[ ,;{}()\n\t=]")


class DeltaTable(Table):
    format = "delta"
    # The source of a MERGE is stored already (`upserts.py`).
    session_settings: ClassVar = {
        **Table.session_settings,
        f"{_DELTA}.merge.materializeSource": "none",
        # The files are listed in each version's checksum, so that no job has to find them: of some 700 bytes.
        f"{_DELTA}.allFilesInCrc.thresholdNumFiles": "200",
        # Otherwise each commit checks that list with a job, where the machine's time is not UTC.
        f"{_DELTA}.allFilesInCrc.verificationMode.forceOnNonUTC.enabled": "false",
    }

    @property
    def _sql(self) -> str:
        return f"delta.{quoted(self.location)}" if self._catalog is None else self._catalog.sql_name

    @cached_property
    def _files(self) -> str:
        """The folder of the table's files."""
        return self.location if self._catalog is None else str(self._detail().location)

    def _has_files(self) -> bool:
        tables = java_class(self.spark, "io.delta.tables.DeltaTable")
        return bool(tables.isDeltaTable(self.spark._jsparkSession, self.location))

    def _upsert(self, rows: DataFrame, keys: Sequence[str], few: bool) -> None:
        prepared = self._prepare(rows, marked=True)
        open_rows = (lambda session: DeltaVersion(session, self._files)) if self._marks_rows else None
        upsert = Upsert(self._sql, keys, self._tombstones, self._latest_times, few=few, open_rows=open_rows)
        with self._pages(rows.sparkSession):
            upsert.run(prepared)

    @cached_property
    def _marks_rows(self) -> bool:
        return bool(self._detail().properties.get(_MARKS, "false") == "true")

    def _pages(self, session: SparkSession) -> AbstractContextManager[None]:
        """The settings for the pages of files that are written."""
        return settings(session, _SMALL_PAGES if self._marks_rows else {})

    def _keep_merge_mode(self, mode: str) -> None:
        value = _marks(mode)
        present = self._detail().properties.get(_MARKS, "false")
        if present != value:
            self.spark.sql(f"ALTER TABLE {self._sql} SET TBLPROPERTIES ('{_MARKS}' = '{value}')")
            self._marks_rows = mode == "merge-on-read"

    def check_replaceable(self) -> None:
        """Does nothing: a MERGE replaces rows in one commit."""

    def _replace(self, places: DataFrame, rows: DataFrame) -> None:
        replace_rows(self._sql, places, rows)

    def _trim(self, positions: Mapping[int, int]) -> None:
        if condition := at_or_after(positions):
            self.spark.sql(f"DELETE FROM {self._sql} WHERE {condition}")

    def _merge(self) -> list[str]:
        with self._pages(self.spark):
            rewritten = self._rewrite_timestamps()
            if "deletionVectors" in self._detail().tableFeatures:
                purged = self.spark.sql(f"REORG TABLE {self._sql} APPLY (PURGE)").head().metrics
                files = purged.numFilesRemoved
                rewritten.append(f"wrote {files} files again without the rows that were marked (REORG)")
            optimized = self.spark.sql(f"OPTIMIZE {self._sql}").head().metrics
        merged = f"merged {optimized.numFilesRemoved} files into {optimized.numFilesAdded} (OPTIMIZE)"
        return [*rewritten, merged]

    def _small_files(self, session: SparkSession) -> list[TierCount]:
        files = DeltaVersion(session, self._files).files()
        if isinstance(files, list):
            return counted((one.partition, one.size) for one in files)
        tiers = files.groupBy("partition", f.expr(tier_of("size")).alias("tier"))
        found = tiers.agg(f.count(f.lit(1)), f.sum("size")).where("tier IS NOT NULL")
        return [TierCount(*row) for row in found.collect()]

    def _merge_small(self, session: SparkSession, merge: Merge) -> int:
        of = " OR ".join(filter(None, map(_is_partition, merge.partitions)))
        options = {
            f"{_DELTA}.optimize.minFileSize": str(merge.below),
            # Otherwise a large file would be written again if some of its rows are marked.
            f"{_DELTA}.optimize.maxDeletedRowsRatio": "1.0",
        }
        with settings(session, options), self._pages(session):
            done = session.sql(f"OPTIMIZE {self._sql} {of and f'WHERE {of}'}").head()
        return int(done.metrics.numFilesRemoved)

    def _expire(self, session: SparkSession, retain: timedelta) -> list[str]:
        hours = retain / timedelta(hours=1)
        options = {
            # Delta requires at least a week, to protect concurrent writers. This table has none.
            f"{_DELTA}.retentionDurationCheck.enabled": "false",
            f"{_DELTA}.vacuum.logging.enabled": "true",
            # The number of tasks that list folders for VACUUM. With the default of 10,000 it takes 77 s for
            # five files on two cores, and 10 s with this value.
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(
                2 * session.sparkContext.defaultParallelism
            ),
        }
        with settings(session, options):
            session.sql(f"VACUUM {self._sql} RETAIN {hours:g} HOURS").collect()
        ended = session.sql(f"DESCRIBE HISTORY {self._sql} LIMIT 1").head()
        deleted = ended.operationMetrics["numDeletedFiles"]
        return [f"deleted {deleted} files that no version of the last {spoken(retain)} needs (VACUUM)"]

    def _rewrite_timestamps(self) -> list[str]:
        """Rewrites the table, in one commit, if some of its files have timestamps of the old type."""
        old = self.files_to_rewrite()
        if old:
            rows = self._read(self.spark)
            writer = rows.write.format("delta").mode("overwrite").option("dataChange", "false")
            writer.partitionBy(*self.partitioning.names).save(self._files)
        return [f"rewrote the table, since {len(old)} of its files had INT96 timestamps"] if old else []

    def _read(self, session: SparkSession) -> DataFrame:
        if self._catalog is not None:
            return session.table(self._sql)
        return session.read.format("delta").load(self.location)

    def _files_of_sparks_writer(self) -> list[str]:
        return list(self._read(self.spark).inputFiles())

    def _files_with(self, condition: str) -> list[str]:
        rows = self._read(self.spark).where(condition)
        return [unquote(path) for (path,) in rows.select("_metadata.file_path").collect()]

    def _commit_of(self, file: str) -> Commit:
        name = file.rpartition("/")[2]
        log = reader(self.spark).option("pathGlobFilter", "*.json").text(f"{self._files}/_delta_log")
        lines = log.where(
            f.contains(f.col("value"), f.lit(name)) & f.startswith(f.col("value"), f.lit('{"add":'))
        )
        versions = [version_of(path) for (path,) in lines.select("_metadata.file_path").collect()]
        if not versions:
            return Commit()
        info = self._log.commit_info(version := min(versions))
        return Commit(str(version), info.get("operation", ""), _iso(info.get("timestamp")))

    def _present_partitioning(self) -> list[str]:
        return list(self._detail().partitionColumns)

    def _detail(self) -> Row:
        return self.spark.sql(f"DESCRIBE DETAIL {self._sql}").head()

    def _create(self, empty: DataFrame) -> StructType:
        if self._catalog is not None:
            return self._create_in_catalog(empty, self._catalog)
        writer = empty.write.format("delta").mode("ignore")
        if self._merge_mode is not None:
            writer = writer.option(_MARKS, _marks(self._merge_mode))
        writer.partitionBy(*self.partitioning.names).save(self.location)
        return self._stored_schema(empty.sparkSession)

    def _create_in_catalog(self, empty: DataFrame, catalog: CatalogTable) -> StructType:
        writer = empty.writeTo(self._sql).using("delta")
        for name, value in catalog.first_properties.items():
            writer = writer.tableProperty(name, value)
        if self._merge_mode is not None:
            writer = writer.tableProperty(_MARKS, _marks(self._merge_mode))
        if names := self.partitioning.names:
            writer = writer.partitionedBy(*(f.col(quoted(name)) for name in names))
        writer.create()
        return self._stored_schema(empty.sparkSession)

    def _add_columns(self, session: SparkSession, added: Sequence[ChangedColumn]) -> None:
        columns = ", ".join(f"{dotted(one.path)} {ddl(one.kind)}" for one in added)
        session.sql(f"ALTER TABLE {self._sql} ADD COLUMNS ({columns})")

    def _change_types(self, session: SparkSession, widened: Sequence[ChangedColumn]) -> None:
        properties = ["'delta.enableTypeWidening' = 'true'"]
        if any(ddl(one.kind) == "timestamp_ntz" for one in widened):
            properties.append("'delta.feature.timestampNtz' = 'supported'")
        session.sql(f"ALTER TABLE {self._sql} SET TBLPROPERTIES ({', '.join(properties)})")
        for one in widened:
            session.sql(f"ALTER TABLE {self._sql} ALTER COLUMN {dotted(one.path)} TYPE {ddl(one.kind)}")

    @cached_property
    def _log(self) -> DeltaLog:
        return DeltaLog(HadoopFiles(self._files))

    def _batches(self, session: SparkSession) -> Iterator[Batch | None]:
        if self._catalog is not None and not self.exists():
            return iter(())
        return self._log.batches()

    def _append(self, rows: DataFrame, batch: Batch) -> None:
        writer = rows.write.format("delta").mode("append")
        writer = writer.option("txnAppId", batch.app_id).option("txnVersion", batch.id)
        writer = writer.option("userMetadata", batch.to_json())
        if self._catalog is None:
            writer.save(self.location)
        else:
            writer.saveAsTable(self._sql)
        if next(self._log.batches(), None) != batch:
            self._has(rows, batch, numbered=True)

    def _upsert_problem(self, columns: StructType) -> str | None:
        for name in columns.names:
            if name.lower() == METADATA:
                return (
                    f"Delta's MERGE takes the column {name} of the data for what Spark tells of a file; "
                    "leave it out by select:, or use mode append"
                )
        return None

    def _problem(self, schema: StructType) -> str | None:
        for name in _names(schema):
            if _REFUSED.search(name):
                return (
                    f"Delta allows no column {name!r}: names may not have a space or one of ,;{{}}()=; "
                    "give the format a schema with other names, or write iceberg:PATH"
                )
        return None


def _is_partition(values: str) -> str:
    """The SQL condition for a partition; empty for all of the table.

    `values` is JSON: [{"key": column, "value": ...}, ...].
    """
    fields = json.loads(values)
    return " AND ".join(
        f"{quoted(one['key'])} <=> {text(one['value']) if one.get('value') is not None else 'NULL'}"
        for one in fields
    )


def _marks(mode: str) -> str:
    return "true" if mode == "merge-on-read" else "false"


def _names(kind: DataType) -> list[str]:
    if isinstance(kind, StructType):
        return [name for field in kind for name in (field.name, *_names(field.dataType))]
    if isinstance(kind, ArrayType):
        return _names(kind.elementType)
    if isinstance(kind, MapType):
        return [*_names(kind.keyType), *_names(kind.valueType)]
    return []


def _iso(milliseconds: int | None) -> str:
    if milliseconds is None:
        return ""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
