"""Batches of a few rows for tables, and what a table has of them."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafkapy.pipeline.tables.batch import Batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkapy.pipeline.tables.table import Table

RECORD = (
    "_topic STRING, _partition INT, _offset BIGINT, _timestamp TIMESTAMP, _key BINARY, "
    "_headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
NOON = datetime.datetime(2025, 1, 31, 12, tzinfo=datetime.UTC)
APP = "orders-1"


def nth(number: int, app_id: str = APP) -> Batch:
    """The batch of that number, with one offset of partition 0."""
    return Batch(app_id, number, {0: (number, number + 1)})


def record(partition: int, offset: int, key: str = "k", time: datetime.datetime = NOON) -> tuple[Any, ...]:
    return ("orders", partition, offset, time, key.encode(), [("h", b"\x00")])


def data_frame(spark: SparkSession, columns: str, values: Iterable[tuple[Any, ...]]) -> DataFrame:
    """Rows that no Python worker has to make."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    schema = to_arrow_schema(StructType.fromDDL(columns))
    listed = list(values)
    arrays = [pa.array([row[i] for row in listed], field.type) for i, field in enumerate(schema)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=schema), columns)


def rows(spark: SparkSession, columns: str, values: Iterable[tuple[Any, ...]]) -> DataFrame:
    """`columns` of the data, then those of the record."""
    return data_frame(spark, f"{columns}, {RECORD}", values)


def numbered(spark: SparkSession, *places: tuple[int, int]) -> DataFrame:
    """Rows whose only column of data is 100 * partition + offset."""
    values = [(100 * partition + offset, *record(partition, offset)) for partition, offset in places]
    return rows(spark, "id BIGINT", values)


def ids(table: Table) -> list[int]:
    return sorted(row.id for row in table.read().select("id").collect())


def files_below(folder: str | Path) -> list[Path]:
    return [path for path in Path(folder).rglob("*.parquet") if "_kafkapy" not in path.parts]
