"""Turns rows back into records.

The result has the columns `COLUMNS` of `task.py`. The value is encoded from the table's columns:

    raw         the original bytes
    json        one object without null fields; timestamps are ISO 8601 in UTC; what was rescued is put back
    avro        bare, with the schema; if values carry schema ids, with the newest that fits, and its id
                (`avro.py`)
    protobuf    bare, with the descriptor set; encoded by the task (`protobuf.py`)

A row whose columns are all null becomes a null value, since a null value becomes such a row.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.formats.avro_schema import AvroSchema
from kafkapy.pipeline.formats.rescue import restored
from kafkapy.pipeline.formats.writer_schemas import WriterSchemas, read_schema
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.replay.avro import AvroRows
from kafkapy.pipeline.state import State
from kafkapy.pipeline.tables.table import RECORD_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_JSON_OPTIONS = {"timeZone": "UTC", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX"}


def encoded(definition: PipelineDefinition, rows: DataFrame) -> DataFrame:
    parsed = [name for name in rows.columns if name not in RECORD_COLUMNS.names]
    return rows.select(
        f.col("_topic").alias("topic"),
        f.coalesce("_partition", f.lit(0)).alias("partition"),
        f.col("_offset").alias("offset"),
        f.unix_millis("_timestamp").alias("timestamp_ms"),
        f.col("_key").alias("key"),
        _value(definition, rows, parsed).alias("value"),
        f.col("_headers").alias("headers"),
    )


def _value(definition: PipelineDefinition, rows: DataFrame, parsed: list[str]) -> Column:
    kind = definition.format.kind
    if kind == "raw":
        return f.col("value")
    columns = [f.col(f"`{name}`") for name in parsed]
    if kind == "json" and (rescued := _rescued(definition, parsed)):
        others = f.struct(*(f.col(f"`{name}`") for name in parsed if name != rescued))
        together = f.udf(restored, "string", useArrow=False)
        value = together(f.to_json(others, _JSON_OPTIONS), f.col(f"`{rescued}`")).cast("binary")
    elif kind == "json":
        value = f.to_json(f.struct(*columns), _JSON_OPTIONS).cast("binary")
    elif kind == "avro":
        try:
            value = AvroRows(rows, parsed, _avro_schemas(definition)).value()
        except PipelineError as error:
            raise PipelineError(f"{definition.table}: {error}") from None
    else:
        value = f.struct(*columns)
    return f.when(reduce(or_, [each.isNotNull() for each in columns]), value)


def _rescued(definition: PipelineDefinition, parsed: list[str]) -> str | None:
    """The table's name of the column of rescued data; None if it has none."""
    wanted = (definition.format.rescued or "").lower()
    return next((name for name in parsed if name.lower() == wanted), None)


def _avro_schemas(definition: PipelineDefinition) -> list[tuple[int | None, AvroSchema]]:
    """The schemas that values may be written with, oldest first.

    Each comes with its id if values carry one.
    """
    wanted = definition.format
    if not wanted.registry and not wanted.schemas:
        assert wanted.schema is not None
        return [(None, read_schema(wanted.schema))]
    known = WriterSchemas(wanted.schemas, None, State.of(definition)).known()
    if not known:
        raise PipelineError("no schema of the records is known, so there is nothing to replay")
    return list(known.items())
