"""JSON with a schema: Spark DDL, Spark's JSON form of a StructType, or a JSON Schema.

A JSON Schema may also be the newest of a subject in a registry.

A field that may not be null (NOT NULL; `required` in a JSON Schema) must be in every record.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kafkapy.pipeline.format_definition import FormatDefinition
from kafkapy.pipeline.formats.changes.envelope import Envelope
from kafkapy.pipeline.formats.ddl import parse_ddl
from kafkapy.pipeline.formats.format import Format
from kafkapy.pipeline.formats.json_schema import bundled, parse_json_schema
from kafkapy.pipeline.formats.registry import registered_schema
from kafkapy.pipeline.formats.schema_text import schema_text
from kafkapy.pipeline.formats.spark_types import (
    SparkType,
    Struct,
    all_types,
    checked_columns,
    from_spark_json,
    kind_of,
    nullable,
    struct_of,
    with_rescued,
)
from kafkapy.pipeline.pipeline_error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class JsonFormat(Format):
    def __init__(
        self,
        definition: FormatDefinition,
        keys: Sequence[str] = (),
        envelope: Envelope | None = None,
        topic: str = "",
    ) -> None:
        """`keys` are the columns to match by, whose values are never rescued.

        With an `envelope`, the schema is that of the rows within. Without a schema it is that of the registry
        for the values of `topic`.
        """
        self._definition, self._topic = definition, topic
        self._envelope = envelope
        self._rescued, self._keys = definition.rescued, tuple(keys)

    def check(self) -> None:
        self._columns  # noqa: B018 - reads and checks it

    @functools.cached_property
    def _columns(self) -> Struct:
        text, source, references = self._given()
        try:
            columns = checked_columns(_parse_schema(text, references))
            for path, kind in all_types(columns):
                _check_readable(path, kind)
            checked_columns(with_rescued(columns, self._rescued))
        except PipelineError as error:
            raise PipelineError(f"{source}: {error}") from None
        return columns if self._envelope is None else self._envelope.around(columns)

    def _given(self) -> tuple[str, str, Mapping[str, str]]:
        """The text of the schema, how messages call it, and the schemas that it refers to."""
        if self._definition.schema is not None:
            return *schema_text(self._definition.schema), {}
        registered, subject = registered_schema(self._definition, self._topic, "JSON")
        return registered.text, f"the subject {subject}", registered.references

    @property
    def columns(self) -> Struct:
        return with_rescued(self._columns, self._rescued)

    def parse(self, records: DataFrame) -> DataFrame:
        from kafkapy.pipeline.formats.json_rescue import parsed_records

        columns = self._columns
        if self._envelope is not None:  # which alone knows the records that have a row (`changes/`)
            columns = struct_of(
                [{**one, "type": nullable(one["type"]), "nullable": True} for one in columns["fields"]]
            )
        return parsed_records(records, columns, self._rescued, self._keys)


def _parse_schema(text: str, references: Mapping[str, str]) -> Struct:
    if not text.lstrip().startswith("{"):
        return parse_ddl(text)
    try:
        value = json.loads(text)
        referenced = {name: json.loads(one) for name, one in references.items()}
    except ValueError as error:
        raise PipelineError(f"not JSON: {error}") from None
    if value.get("type") == "struct" and "fields" in value:
        spark_type = from_spark_json(value)
        assert isinstance(spark_type, dict)
        return spark_type
    return parse_json_schema(bundled(value, referenced))


def _check_readable(path: str, kind: SparkType) -> None:
    # Jackson's getByteValue silently returns -56 for 200.
    if kind == "byte":
        raise PipelineError(f"{path}: a TINYINT cannot be checked in JSON; use SMALLINT")
    if isinstance(kind, dict) and kind_of(kind) == "map" and kind["keyType"] != "string":
        raise PipelineError(f"{path}: the keys of JSON objects are strings; use MAP<STRING, ...>")
