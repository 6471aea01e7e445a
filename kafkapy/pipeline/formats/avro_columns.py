"""The columns of an Avro schema: the types of Spark's `from_avro`, without Spark.

    boolean, int, long, float, double, string, bytes   BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, STRING, BINARY
    record, array, map                                 STRUCT, ARRAY, MAP<STRING, ...>
    enum, uuid                                         STRING
    fixed, duration                                    BINARY
    date, decimal                                      DATE, DECIMAL
    timestamp-millis, timestamp-micros                 TIMESTAMP
    local-timestamp-millis, local-timestamp-micros     TIMESTAMP_NTZ
    time-millis, time-micros, timestamp-nanos          INT, BIGINT: the number that Avro stores
    union of null and one type                         the type
    union of int and long, of float and double         BIGINT, DOUBLE
    any other union                                    STRUCT of member_string, member_NAME ..., one set

A schema whose root is not a record has one column, `value`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from kafkapy.pipeline.formats.avro_schema import AvroSchema, branches
from kafkapy.pipeline.formats.spark_types import (
    OWN_COLUMNS,
    SparkType,
    Struct,
    array,
    checked_columns,
    decimal,
    map_of,
    struct,
)
from kafkapy.pipeline.pipeline_error import PipelineError

_PRIMITIVES: Final = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
}
_LOGICAL: Final = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
}


def avro_columns(schema: AvroSchema, taken: Collection[str] = OWN_COLUMNS) -> Struct:
    """The columns of a schema.

    Raises PipelineError for a schema that is recursive, allows only nulls, or has a name that is taken.
    """
    root = _Converter(schema).convert(schema.root, "", ())
    if is_record(schema):
        assert isinstance(root, dict)
        return checked_columns(root, taken)
    return checked_columns(struct({"value": root}), taken)


def is_record(schema: AvroSchema) -> bool:
    """Whether the schema is a record, whose fields are then the columns.

    Its root is a record, or a union of null and one record.
    """
    inner = branches(schema.root)
    return (
        len(inner) == 1
        and isinstance(inner[0], str)
        and schema.named.get(inner[0], {}).get("type") == "record"
    )


class _Converter:
    def __init__(self, schema: AvroSchema) -> None:
        self._named = schema.named

    def convert(self, kind: Any, path: str, within: tuple[str, ...]) -> SparkType:
        if isinstance(kind, list):
            return self._union(kind, path, within)
        if isinstance(kind, dict):
            if kind["type"] == "array":
                return array(self.convert(kind["items"], f"{path}[]", within))
            if kind["type"] == "map":
                return map_of("string", self.convert(kind["values"], f"{path}{{}}", within))
            return _logical(kind)
        if kind == "null":
            raise PipelineError(f"{path or 'the schema'} can only be null, so it has no type; leave it out")
        if kind in _PRIMITIVES:
            return _PRIMITIVES[kind]
        return self._named_type(kind, path, within)

    def _named_type(self, name: str, path: str, within: tuple[str, ...]) -> SparkType:
        definition = self._named[name]
        if definition["type"] == "enum":
            return "string"
        if definition["type"] == "fixed":
            return _logical(definition) if "logicalType" in definition else "binary"
        if name in within:
            raise PipelineError(
                f"{path} is recursive ({name.removeprefix('avro.')} within itself), but columns cannot be; "
                "use format raw"
            )
        return struct(
            {
                one["name"]: self.convert(
                    one["type"], f"{path}.{one['name']}".removeprefix("."), (*within, name)
                )
                for one in definition["fields"]
            }
        )

    def _union(self, kinds: list[Any], path: str, within: tuple[str, ...]) -> SparkType:
        real = branches(kinds)
        if len(real) <= 1:
            return self.convert(real[0] if real else "null", path, within)
        plain = {one for one in real if isinstance(one, str)}
        for pair, common in (({"int", "long"}, "long"), ({"float", "double"}, "double")):
            if plain == pair and len(real) == 2:
                return common
        members = {}
        for one in real:
            simple = one["type"] if isinstance(one, dict) else one.rpartition(".")[2]
            name = f"member_{simple.lower()}"
            members[name] = self.convert(one, f"{path}.{name}", within)
        return struct(members)


def _logical(kind: dict[str, Any]) -> SparkType:
    if kind["logicalType"] == "decimal":
        return decimal(kind["precision"], kind["scale"])
    return _LOGICAL[kind["logicalType"]]
