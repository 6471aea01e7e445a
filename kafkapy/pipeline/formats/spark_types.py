"""Spark's types in Spark's own JSON form, handled without Spark.

A type is a name (`long`, `decimal(10,2)`) or a mapping with `type`: struct, array or map. Schemas are read
and checked in this form, so that a mistake in a schema is reported before a JVM starts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from kafkapy.pipeline.pipeline_error import PipelineError, did_you_mean

SparkType = str | dict[str, Any]
Struct = dict[str, Any]

# the name in JSON: the name in SQL
NAMES: Final = {
    "boolean": "BOOLEAN",
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "binary": "BINARY",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP_NTZ",
}
# Columns that every table has besides the parsed ones, or that a batch has on its way to the table.
OWN_COLUMNS: Final = ("_topic", "_partition", "_offset", "_timestamp", "_key", "_headers", "_deleted")

_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")


def field(name: str, kind: SparkType, *, nullable: bool = True) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": {}}


def struct(columns: Mapping[str, SparkType]) -> Struct:
    return struct_of([field(name, kind) for name, kind in columns.items()])


def struct_of(fields: list[dict[str, Any]]) -> Struct:
    return {"type": "struct", "fields": fields}


def array(element: SparkType) -> SparkType:
    return {"type": "array", "elementType": element, "containsNull": True}


def map_of(key: SparkType, value: SparkType) -> SparkType:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def kind_of(spark_type: SparkType) -> str:
    """`struct`, `array`, `map`, or the name of a simple type; `decimal` whatever its digits."""
    name = spark_type if isinstance(spark_type, str) else str(spark_type["type"])
    return "decimal" if name.startswith("decimal") else name


def sql_name(spark_type: SparkType) -> str:
    """As SQL writes it: `ARRAY<STRUCT<id: BIGINT>>`."""
    if isinstance(spark_type, str):
        return NAMES.get(spark_type, spark_type.upper())
    if spark_type["type"] == "array":
        return f"ARRAY<{sql_name(spark_type['elementType'])}>"
    if spark_type["type"] == "map":
        return f"MAP<{sql_name(spark_type['keyType'])}, {sql_name(spark_type['valueType'])}>"
    fields = [f"{one['name']}: {sql_name(one['type'])}" for one in spark_type["fields"]]
    return f"STRUCT<{', '.join(fields)}>"


def decimal(precision: int, scale: int) -> str:
    """Raises PipelineError for digits that Spark's DECIMAL has not."""
    if not (1 <= precision <= 38 and 0 <= scale <= precision):
        raise PipelineError(
            f"DECIMAL({precision},{scale}): Spark has 1 to 38 digits, and the scale is at most the precision"
        )
    return f"decimal({precision},{scale})"


def decimal_digits(spark_type: str) -> tuple[int, int]:
    """The precision and the scale of a DECIMAL."""
    match = _DECIMAL.fullmatch(spark_type)
    assert match is not None
    return int(match[1]), int(match[2])


def nullable(spark_type: SparkType) -> SparkType:
    """The same type with all fields nullable, as in a table, whose rows may be tombstones."""
    if isinstance(spark_type, str):
        return spark_type
    if spark_type["type"] == "struct":
        return struct_of([field(one["name"], nullable(one["type"])) for one in spark_type["fields"]])
    if spark_type["type"] == "array":
        return array(nullable(spark_type["elementType"]))
    return map_of(nullable(spark_type["keyType"]), nullable(spark_type["valueType"]))


def inner_types(spark_type: SparkType) -> Iterator[tuple[str, SparkType]]:
    """The types directly within this one, each with its suffix of the path."""
    if isinstance(spark_type, str):
        return
    if spark_type["type"] == "struct":
        yield from ((f".{one['name']}", one["type"]) for one in spark_type["fields"])
    elif spark_type["type"] == "array":
        yield "[]", spark_type["elementType"]
    else:
        yield "{key}", spark_type["keyType"]
        yield "{}", spark_type["valueType"]


def all_types(spark_type: SparkType, path: str = "") -> Iterator[tuple[str, SparkType]]:
    """Every type within, with its path: `customer.address.city`, `items[].price`."""
    if path:
        yield path.removeprefix("."), spark_type
    for step, inner in inner_types(spark_type):
        yield from all_types(inner, path + step)


def with_rescued(columns: Struct, rescued: str | None) -> Struct:
    """The columns with that of rescued data, if there is one."""
    return columns if rescued is None else struct_of([*columns["fields"], field(rescued, "string")])


def struct_fields(
    columns: Struct, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """The fields of `columns` and of the structs in it, with their paths.

    Fields within arrays and maps are left out.
    """
    for one in columns["fields"]:
        inner = (*path, one["name"])
        yield inner, one
        if kind_of(one["type"]) == "struct":
            yield from struct_fields(one["type"], inner)


def checked_columns(columns: Struct, taken: Collection[str] = OWN_COLUMNS) -> Struct:
    """The columns.

    Raises PipelineError for no columns, duplicates (ignoring case) and names that are taken, which are in
    lower case.
    """
    if not columns["fields"]:
        raise PipelineError("the schema has no fields; a table needs one")
    for one in columns["fields"]:
        if one["name"].lower() in taken:
            raise PipelineError(f"the column {one['name'].lower()} is the table's own; rename the field")
    _check_structs(columns, "")
    return columns


def _check_structs(spark_type: SparkType, path: str) -> None:
    if kind_of(spark_type) == "struct":
        assert isinstance(spark_type, dict)
        seen: dict[str, str] = {}
        for one in spark_type["fields"]:
            name = one["name"]
            where = f"{path}.{name}".removeprefix(".")
            if name.lower() in seen:
                other = seen[name.lower()]
                twice = "occurs twice" if other == name else f"differs from {other} by case only"
                raise PipelineError(f"the field {where} {twice}; tables ignore case")
            seen[name.lower()] = name
        if not spark_type["fields"]:
            raise PipelineError(
                f"the struct {path.removeprefix('.')} has no fields; use STRING or leave it out"
            )
    for step, inner in inner_types(spark_type):
        _check_structs(inner, path + step)


def from_spark_json(value: Any, path: str = "") -> SparkType:
    """Checks a type that `DataFrame.schema.json()` has written.

    Completes what may be left out.
    """
    where = path.removeprefix(".") or "the schema"
    if isinstance(value, str):
        if match := _DECIMAL.fullmatch(value):
            return decimal(int(match[1]), int(match[2]))
        if value not in NAMES:
            raise PipelineError(f"{where}: unknown type {value!r}{did_you_mean(value, NAMES)}")
        return value
    kind = value.get("type") if isinstance(value, dict) else None
    try:
        if kind == "struct":
            fields = [
                field(
                    str(one["name"]),
                    from_spark_json(one["type"], f"{path}.{one['name']}"),
                    nullable=bool(one.get("nullable", True)),
                )
                for one in value["fields"]
            ]
            return struct_of(fields)
        if kind == "array":
            return array(from_spark_json(value["elementType"], f"{path}[]"))
        if kind == "map":
            key = from_spark_json(value["keyType"], f"{path}{{key}}")
            return map_of(key, from_spark_json(value["valueType"], f"{path}{{}}"))
    except (KeyError, TypeError) as error:
        raise PipelineError(f"{where}: not a schema of Spark: {error} is missing or wrong") from None
    raise PipelineError(f"{where}: expected a type of Spark, not {str(value)[:60]}")
