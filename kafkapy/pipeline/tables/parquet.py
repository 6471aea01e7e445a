"""Tables of plain Parquet files, for any reader that can read a folder.

Each batch has one folder:

    batch=00000012/part-....parquet        a batch, its partition columns as folders within
    batch=00000012/_kafkapy.json           {"app_id", "batch_id", "offsets", "schema"}: which batch it is
                                           (`batch.py`), and all columns of the table so far, as Spark writes
                                           a schema
    _kafkapy/staging/                      what is being written; hidden from readers

A batch is written in the staging folder and published by one rename. So readers see either all of it or none,
and need no `_spark_metadata`. Folder numbers continue over incarnations, while batch ids start again. A batch
that runs again finds its identity in the newest folder and changes nothing. If a batch is killed before the
rename, its files remain in the staging folder, which is emptied before the next batch.

Trimming replaces the folders that have rows both before and after a position. The new folder is written in
the staging folder, the old one is moved to `_kafkapy/replaced/`, the new one takes its place, and the old one
is deleted. If the driver is killed between the moves, the old folder is moved back before anything is
written. The reset is not complete until then (`state.py`).

On an object store a rename is not atomic (`stores/hadoop_files.py`); use Delta or Iceberg there.

Batches are never merged: readers of Parquet list folders, and would see rows twice or not at all meanwhile.
Older files lack columns that were added later, so other readers must be told to merge the schemas (Spark:
mergeSchema, DuckDB: union_by_name).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.reset_command import reset_command
from kafkapy.pipeline.stores import HadoopFiles
from kafkapy.pipeline.tables.batch import Batch
from kafkapy.pipeline.tables.commit import Commit
from kafkapy.pipeline.tables.evolution import ChangedColumn
from kafkapy.pipeline.tables.reader import reader
from kafkapy.pipeline.tables.reserved_names import BATCH
from kafkapy.pipeline.tables.small_files import Merge, TierCount
from kafkapy.pipeline.tables.table import Table
from kafkapy.pipeline.tables.trimming import at_or_after

_STAGING: Final = "_kafkapy/staging"
_REPLACED: Final = "_kafkapy/replaced"
_MARKER: Final = "_kafkapy.json"


class ParquetTable(Table):
    format = "parquet"

    @cached_property
    def _files(self) -> HadoopFiles:
        return HadoopFiles(self.location)

    def _has_files(self) -> bool:
        # A killed trim may have left the only batch in the folder of replaced batches.
        return bool(self._folders() or self._files.names(_REPLACED))

    def append(self, rows: DataFrame, batch: Batch) -> None:
        self._restore_replaced()
        super().append(rows, batch)

    def _upsert(self, rows: DataFrame, keys: Sequence[str], few: bool) -> None:
        raise PipelineError(
            f"{self.name}: Parquet files cannot be updated by key; write delta:PATH or iceberg:PATH, "
            "or append every record with mode: append"
        )

    def _keep_merge_mode(self, mode: str) -> None:
        """Does nothing: no row of a Parquet file is ever updated."""

    def check_replaceable(self) -> None:
        raise PipelineError(
            f"{self.name}: rows of Parquet files cannot be replaced in one commit; to read the topic again "
            f"in place of the rows that it still has: {reset_command(self.location, 'earliest')}"
        )

    def _replace(self, places: DataFrame, rows: DataFrame) -> None:
        self.check_replaceable()

    def _trim(self, positions: Mapping[int, int]) -> None:
        condition = at_or_after(positions)
        self._restore_replaced()
        if not condition or not self._folders():
            return
        rows = self._read(self.spark)
        counted = rows.groupBy(f.col("_metadata.file_path").alias("path")).agg(
            f.count_if(f.expr(condition)).alias("after"), f.count("*").alias("all")
        )
        before: dict[str, list[int]] = {}
        for row in counted.collect():
            folder = self._folder_of(unquote(row.path))
            so_far = before.setdefault(folder, [0, 0])
            before[folder] = [so_far[0] + row.after, so_far[1] + row["all"]]
        for folder, (after, everything) in sorted(before.items()):
            if after == everything:
                self._files.delete(folder)
            elif after:
                self._rewrite(folder, f"NOT ({condition})")

    def _merge(self) -> list[str]:
        leftovers = self._files.names(_STAGING)
        self._files.delete(_STAGING)
        self._restore_replaced()
        old = {self._folder_of(file) for file in self.files_to_rewrite()}
        for folder in sorted(old):
            self._rewrite(folder)
        return [
            *([f"rewrote {len(old)} batches, which had INT96 timestamps"] if old else []),
            f"deleted {len(leftovers)} unfinished batches",
            f"kept {len(self._folders())} batches as they are: merging Parquet files would show readers "
            "rows twice or not at all; Delta and Iceberg tables can be merged",
        ]

    def _small_files(self, session: SparkSession) -> list[TierCount]:
        return []  # none that could be merged

    def _merge_small(self, session: SparkSession, merge: Merge) -> int:
        return 0

    def _expire(self, session: SparkSession, retain: timedelta) -> list[str]:
        return []  # there is one version

    # -- batches

    def _folders(self) -> list[str]:
        return [name for name in self._files.names() if name.startswith(f"{BATCH}=")]

    def _batches(self, session: SparkSession) -> Iterator[Batch | None]:
        """The batches, newest first.

        A batch without rows has no folder and is absent.
        """
        for folder in reversed(self._folders()):
            yield Batch.from_mapping(self._marker(folder), folder)

    def _folder_of(self, file: str) -> str:
        """The folder of the batch that a file belongs to.

        Folders above the table, and texts of partitions in it, may also begin with `batch=`.
        """
        found = re.search(rf"{re.escape(self._files.path().rstrip('/'))}/({BATCH}=\d+)/", file)
        assert found is not None, file
        return found[1]

    def _append(self, rows: DataFrame, batch: Batch) -> None:
        files, folders = self._files, self._folders()
        number = int(folders[-1].partition("=")[2]) + 1 if folders else 0
        files.delete(_STAGING)
        name = f"{BATCH}={number:08d}"
        self._stage(rows, name, {**batch.to_mapping(), "schema": rows.schema.jsonValue()})
        if any(one.endswith(".parquet") or "=" in one for one in files.names(f"{_STAGING}/{name}")):
            files.rename(f"{_STAGING}/{name}", name)

    def _stage(self, rows: DataFrame, name: str, marker: Mapping[str, Any]) -> None:
        writer = rows.write.mode("overwrite").partitionBy(*self.partitioning.names)
        writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        writer.parquet(self._files.uri(f"{_STAGING}/{name}"))
        self._files.write_text(f"{_STAGING}/{name}/{_MARKER}", json.dumps(marker))

    def _rewrite(self, folder: str, condition: str = "true") -> None:
        files = self._files
        marker = self._marker(folder)
        schema = StructType.fromJson(marker["schema"])
        self._stage(
            reader(self.spark).schema(schema).parquet(files.uri(folder)).where(condition), folder, marker
        )
        files.rename(folder, f"{_REPLACED}/{folder}")
        files.rename(f"{_STAGING}/{folder}", folder)
        files.delete(f"{_REPLACED}/{folder}")

    def _restore_replaced(self) -> None:
        files = self._files
        for folder in files.names(_REPLACED):
            if files.exists(folder):
                files.delete(f"{_REPLACED}/{folder}")
            else:
                files.rename(f"{_REPLACED}/{folder}", folder)

    # -- the table

    def _read(self, session: SparkSession) -> DataFrame:
        return reader(session).schema(self._stored_schema(session)).parquet(self.location).drop(BATCH)

    def _stored_schema(self, session: SparkSession) -> StructType:
        aside = [f"{_REPLACED}/{name}" for name in self._files.names(_REPLACED)]
        return StructType.fromJson(self._marker((aside + self._folders())[-1])["schema"])

    def _marker(self, folder: str) -> dict[str, Any]:
        try:
            return dict(json.loads(self._files.read_text(f"{folder}/{_MARKER}")))
        except OSError:
            raise PipelineError(
                f"{self.name}: {folder} was not written by a pipeline; name an empty or a new folder"
            ) from None

    def _files_of_sparks_writer(self) -> list[str]:
        return [unquote(uri) for uri in self._read(self.spark).inputFiles()]

    def _files_with(self, condition: str) -> list[str]:
        rows = self._read(self.spark).where(condition)
        return [unquote(path) for (path,) in rows.select("_metadata.file_path").collect()]

    def _commit_of(self, file: str) -> Commit:
        return Commit(self._folder_of(file))

    def _present_partitioning(self) -> list[str]:
        names, folder = [], self._folders()[-1]
        while inner := [name for name in self._files.names(folder) if "=" in name]:
            names.append(inner[0].partition("=")[0])
            folder = f"{folder}/{inner[0]}"
        return names

    def _create(self, empty: DataFrame) -> StructType:
        return empty.schema  # the first batch creates the table

    def _add_columns(self, session: SparkSession, added: Sequence[ChangedColumn]) -> None:
        """Does nothing: each file has the columns that the table had when it was written."""

    def _change_types(self, session: SparkSession, widened: Sequence[ChangedColumn]) -> None:
        """Does nothing: `Widening` allows no change."""

    def _problem(self, schema: StructType) -> str | None:
        for name in schema.names:
            if name.lower() == BATCH:
                return (
                    f"the column {name} has the name of the folders that hold the batches; "
                    "give the format a schema with another name, or write delta:PATH"
                )
        for field in self.partitioning.fields:
            if field.name.startswith(("_", ".")):
                return (
                    f"partition_by: readers of Parquet skip folders like {field.name}=...; "
                    "partition by another column, or write delta:PATH"
                )
        return None
