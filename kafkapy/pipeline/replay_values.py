"""Rows as records again: the columns that `replay_task.COLUMNS` names, with the value made from the table's.

    raw         the bytes, as they were
    json        one object, without the fields that are null; timestamps are ISO 8601 in UTC
    avro        bare, by the schema; where values carry schema ids, by the schema met last, with its id
    protobuf    bare, by the descriptor set; encoded by the task (`replay_protobuf`)

A row whose columns are all null becomes a null value, for a null value became such a row. Columns that the
schema does not have are left out, and an Avro union of several types is refused.
"""

from __future__ import annotations

import struct
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from pyspark.sql.avro.functions import to_avro
from pyspark.sql.types import StructType

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.formats.avro_columns import avro_columns, is_record
from kafkapy.pipeline.formats.avro_schema import PRIMITIVES, AvroSchema, branches
from kafkapy.pipeline.formats.writer_schemas import WriterSchemas, read_schema
from kafkapy.pipeline.pipeline_error import PipelineError
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
        _value(definition, parsed).alias("value"),
        f.col("_headers").alias("headers"),
    )


def _value(definition: PipelineDefinition, parsed: list[str]) -> Column:
    kind = definition.format.kind
    if kind == "raw":
        return f.col("value")
    columns = [f.col(f"`{name}`") for name in parsed]
    if kind == "json":
        value = f.to_json(f.struct(*columns), _JSON_OPTIONS).cast("binary")
    elif kind == "avro":
        value = _avro(definition, parsed)
    else:
        value = f.struct(*columns)
    return f.when(reduce(or_, [each.isNotNull() for each in columns]), value)


def _avro(definition: PipelineDefinition, parsed: list[str]) -> Column:
    number, schema = _avro_schema(definition)
    columns = StructType.fromJson(avro_columns(schema))
    if missing := [name for name in columns.names if name not in parsed]:
        raise PipelineError(f"the table has no column {missing[0]}, which the Avro schema asks for")
    defaults = _defaults(schema)
    cells = []
    for one in columns:
        cell = f.col(f"`{one.name}`").cast(one.dataType)
        if one.name in defaults:  # of a row whose record was written before the schema had the field
            cell = f.coalesce(cell, f.lit(defaults[one.name]).cast(one.dataType))
        cells.append(cell.alias(one.name))
    payload = to_avro(f.struct(*cells) if is_record(schema) else cells[0], schema.text())
    return payload if number is None else f.concat(f.lit(b"\0" + struct.pack(">i", number)), payload)


def _avro_schema(definition: PipelineDefinition) -> tuple[int | None, AvroSchema]:
    """The schema to write, and its id where values carry one."""
    wanted = definition.format
    if not wanted.registry and not wanted.schemas:
        assert wanted.schema is not None
        return None, read_schema(wanted.schema)
    known = WriterSchemas(wanted.schemas, wanted.registry, State(definition.table.location)).known()
    if not known:
        raise PipelineError(
            f"{definition.table}: no schema of its records is known: there is nothing to replay"
        )
    return list(known.items())[-1]


def _defaults(schema: AvroSchema) -> dict[str, Any]:
    """Of the root's fields that cannot be null and are of a primitive type."""
    if not is_record(schema):
        return {}
    (root,) = branches(schema.root)
    return {
        field["name"]: field["default"]
        for field in schema.named[root]["fields"]
        if "default" in field and field["type"] in PRIMITIVES
    }
