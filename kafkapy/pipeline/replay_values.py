"""Rows as records again: the columns that `replay_task.COLUMNS` names, with the value made from the table's.

raw         the bytes, as they were
json        one object, without the columns that are null; timestamps as ISO 8601
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from kafkapy.pipeline.definition import PipelineDefinition

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def encoded(definition: PipelineDefinition, rows: DataFrame) -> DataFrame:
    parsed = [name for name in rows.columns if not name.startswith("_")]
    value = _value(definition, [f.col(f"`{name}`") for name in parsed])
    return rows.select(
        f.col("_topic").alias("topic"),
        f.col("_partition").alias("partition"),
        f.col("_offset").alias("offset"),
        f.unix_millis("_timestamp").alias("timestamp_ms"),
        f.col("_key").alias("key"),
        value.alias("value"),
        f.col("_headers").alias("headers"),
    )


def _value(definition: PipelineDefinition, columns: list[Column]) -> Column:
    if definition.format.kind == "raw":
        return f.col("value")
    # The row of a null value has no columns that are not null.
    some = reduce(or_, [each.isNotNull() for each in columns])
    return f.when(some, f.to_json(f.struct(*columns)))
