"""Tables that pipelines write: Delta, Iceberg and Parquet behind one interface.

    open_table(spark, target, partition_by=...)    -> Table (`table.py`)
    check_location(target, store)                  checks a location without Spark
    Partitioning.parse(texts)                      checks `partition_by` without Spark

Importing this package does not import pyspark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkapy.pipeline.tables.location import check_location
from kafkapy.pipeline.tables.partitioning import Partitioning

if TYPE_CHECKING:
    from kafkapy.pipeline.tables.opening import open_table
    from kafkapy.pipeline.tables.table import Table

__all__ = ["Partitioning", "Table", "check_location", "open_table"]


def __getattr__(name: str) -> object:
    if name == "open_table":
        from kafkapy.pipeline.tables.opening import open_table

        return open_table
    if name == "Table":
        from kafkapy.pipeline.tables.table import Table

        return Table
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
