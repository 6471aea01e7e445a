"""Opens the table of a pipeline with the class of its format."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from kafkapy.pipeline.stores import open_store
from kafkapy.pipeline.table_target import TableTarget
from kafkapy.pipeline.tables.delta import DeltaTable
from kafkapy.pipeline.tables.iceberg import IcebergTable
from kafkapy.pipeline.tables.location import check_location
from kafkapy.pipeline.tables.parquet import ParquetTable
from kafkapy.pipeline.tables.partitioning import Partitioning
from kafkapy.pipeline.tables.table import Table
from kafkapy.pipeline.tables.widening import Widening

_CLASSES: dict[str, type[Table]] = {one.format: one for one in (DeltaTable, IcebergTable, ParquetTable)}


def open_table(
    spark: SparkSession, target: TableTarget, *, partition_by: Sequence[str] = (), widen_types: bool = False
) -> Table:
    """The table at `target`, which need not exist.

    Raises PipelineError if the location has something else.
    """
    check_location(target, open_store(target.folder))
    widening = Widening(target.format, widen_types)
    table = _CLASSES[target.format](spark, target, Partitioning.parse(partition_by), widening)
    table.check_place()
    return table
