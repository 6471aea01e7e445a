"""Changes to a table, of any format, that its pipeline does not know of."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kafkapy.pipeline.table_target import TableTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Iceberg reserves the name `_partition`.
_ICEBERG_PARTITION = "_kafka_partition"


def rows_of(spark: SparkSession, table: TableTarget) -> DataFrame:
    """As any reader sees them, under the names that the pipeline gave them."""
    reader = spark.read.format(table.format)
    if table.format == "parquet":
        reader = reader.option("recursiveFileLookup", "true")
    return reader.load(table.location).withColumnRenamed(_ICEBERG_PARTITION, "_partition")


def rewrite(spark: SparkSession, table: TableTarget, change: Callable[[DataFrame], DataFrame]) -> None:
    """Replaces the rows of a table without partitions by what `change` makes of them."""
    rows = rows_of(spark, table)
    changed = change(rows).select(rows.columns)
    if table.format == "parquet":
        _replace_files(changed, table)
        return
    if table.format == "iceberg":
        changed = changed.withColumnRenamed("_partition", _ICEBERG_PARTITION)
    changed.write.format(table.format).mode("overwrite").save(table.location)


def _replace_files(changed: DataFrame, table: TableTarget) -> None:
    folder = Path(table.location)
    fresh = folder.with_name(f"{folder.name}.changed")
    changed.write.parquet(str(fresh))
    for path in folder.glob("batch=*/*.parquet"):
        path.unlink()
    newest = max(folder.glob("batch=*"))
    for path in fresh.glob("*.parquet"):
        path.rename(newest / path.name)
    shutil.rmtree(fresh)
