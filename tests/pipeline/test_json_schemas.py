"""Schemas of JSON values, as DDL, Spark's JSON and JSON Schema, read without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkapy.pipeline.format_definition import FormatDefinition
from kafkapy.pipeline.formats.ddl import parse_ddl
from kafkapy.pipeline.formats.json_format import JsonFormat
from kafkapy.pipeline.formats.json_schema import parse_json_schema
from kafkapy.pipeline.formats.spark_types import Struct, kind_of, sql_name, struct
from kafkapy.pipeline.pipeline_error import PipelineError


def sql(columns: Struct) -> str:
    """`id: BIGINT, ...`; fields that may not be null with an exclamation mark."""
    return ", ".join(
        f"{one['name']}{'' if one['nullable'] else '!'}: {sql_name(one['type'])}" for one in columns["fields"]
    )


def columns_of(schema: str) -> Struct:
    return JsonFormat(FormatDefinition(kind="json", schema=schema)).columns


@pytest.mark.parametrize(
    ("ddl", "columns"),
    [
        ("id BIGINT", "id: BIGINT"),
        ("id: long, name: string", "id: BIGINT, name: STRING"),
        ("id bigint not null comment 'it''s', n INT", "id!: BIGINT, n: INT"),
        ("`a b` double, `select` date, `x``y` real", "a b: DOUBLE, select: DATE, x`y: FLOAT"),
        ("d DECIMAL(10,2), e decimal(5), f dec, g numeric(3, 1)",
         "d: DECIMAL(10,2), e: DECIMAL(5,0), f: DECIMAL(10,0), g: DECIMAL(3,1)"),
        ("t timestamp, u timestamp_ntz, v TIMESTAMP_LTZ", "t: TIMESTAMP, u: TIMESTAMP_NTZ, v: TIMESTAMP"),
        ("c char(3), v varchar(20), b binary, o boolean", "c: STRING, v: STRING, b: BINARY, o: BOOLEAN"),
        ("a array<array<int>>, m map<string,array<short>>",
         "a: ARRAY<ARRAY<INT>>, m: MAP<STRING, ARRAY<SMALLINT>>"),
        ("s struct<x: int, y struct<z:string>>, e struct<>",
         "s: STRUCT<x: INT, y: STRUCT<z: STRING>>, e: STRUCT<>"),
        ("struct<id: int>", "id: INT"),
        ("struct int", "struct: INT"),
        ("größe\n  int", "größe: INT"),
    ],
)  # fmt: skip
def test_ddl_is_read_as_spark_reads_it(ddl: str, columns: str) -> None:
    assert sql(parse_ddl(ddl)) == columns


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("id", "expected the type of id, not at the end"),
        ("id BIGINTT", "id has an unknown type 'BIGINTT' (did you mean 'bigint'?)"),
        ("id BIGINT,", "expected a name at the end"),
        ("id BIGINT name STRING", "unexpected 'name STRING'"),
        ("id ARRAY<INT", "expected '>', not at the end"),
        ("id MAP<STRING>", "expected ',', not '>'"),
        ("id DECIMAL(50)", "DECIMAL(50,0): Spark has 1 to 38 digits"),
        ("id DECIMAL(x)", "expected a number, not 'x)'"),
        ("id INT NOT NIL", "expected 'null', not 'NIL'"),
        ("id INT; name STRING", "unexpected '; name STRING'"),
        ("", "expected a name at the end"),
    ],
)
def test_wrong_ddl_is_one_line_that_says_where(ddl: str, message: str) -> None:
    with pytest.raises(PipelineError) as failure:
        parse_ddl(ddl)
    assert message in str(failure.value)
    assert "\n" not in str(failure.value)


def test_the_json_of_a_spark_schema_is_taken_as_it_is() -> None:
    written = {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": False, "metadata": {}},
            {"name": "tags", "type": {"type": "array", "elementType": "string", "containsNull": True}},
            {"name": "price", "type": "decimal(10,2)"},
        ],
    }
    assert sql(columns_of(json.dumps(written))) == "id!: BIGINT, tags: ARRAY<STRING>, price: DECIMAL(10,2)"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("lnog", "id: unknown type 'lnog' (did you mean 'long'?)"),
        ({"type": "array"}, "id: not a schema of Spark: 'elementType' is missing or wrong"),
        ({"type": "list"}, "id: expected a type of Spark, not"),
    ],
)
def test_a_wrong_spark_schema_names_the_field(kind: Any, message: str) -> None:
    with pytest.raises(PipelineError) as failure:
        columns_of(json.dumps({"type": "struct", "fields": [{"name": "id", "type": kind}]}))
    assert message in str(failure.value)


def json_schema(properties: dict[str, Any], **further: Any) -> Struct:
    return parse_json_schema({"type": "object", "properties": properties, **further})


@pytest.mark.parametrize(
    ("schema", "column"),
    [
        ({"type": "integer"}, "BIGINT"),
        ({"type": "integer", "format": "int32"}, "INT"),
        ({"type": "number"}, "DOUBLE"),
        ({"type": ["integer", "number"]}, "DOUBLE"),
        ({"type": "boolean"}, "BOOLEAN"),
        ({"type": "string", "format": "email"}, "STRING"),
        ({"type": "string", "format": "date-time"}, "TIMESTAMP"),
        ({"type": "string", "format": "date"}, "DATE"),
        ({"type": "string", "contentEncoding": "base64"}, "BINARY"),
        ({"enum": ["a", "b"]}, "STRING"),
        ({"type": ["string", "integer"]}, "STRING"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "BIGINT"),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "STRING"),
        ({"type": "array", "items": {"type": "integer"}}, "ARRAY<BIGINT>"),
        ({"type": "array"}, "ARRAY<STRING>"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "MAP<STRING, DOUBLE>"),
        ({"type": "object"}, "MAP<STRING, STRING>"),
        ({"properties": {"x": {"$ref": "#/$defs/n"}}}, "STRUCT<x: BIGINT>"),
        ({"allOf": [{"$ref": "#/$defs/p"}, {"properties": {"y": {"type": "string"}}}]},
         "STRUCT<x: BIGINT, y: STRING>"),
        (True, "STRING"),
    ],
)  # fmt: skip
def test_types_of_a_json_schema(schema: Any, column: str) -> None:
    definitions = {
        "n": {"type": "integer"},
        "p": {"type": "object", "properties": {"x": {"type": "integer"}}},
    }
    assert sql(json_schema({"a": schema}, **{"$defs": definitions})) == f"a: {column}"


def test_required_properties_may_be_missing_only_if_they_may_be_null() -> None:
    properties = {"id": {"type": "integer"}, "name": {"type": ["string", "null"]}, "note": {"type": "string"}}
    assert sql(json_schema(properties, required=["id", "name"])) == "id!: BIGINT, name: STRING, note: STRING"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "string"}, "describes no object with properties"),
        (
            {"properties": {"a": {"$ref": "other.json#/x"}}},
            "a: $ref 'other.json#/x' is in another document",
        ),
        ({"properties": {"a": {"$ref": "#/$defs/x"}}}, "a: $ref '#/$defs/x' does not exist"),
        ({"properties": {"a": {"$ref": "#"}}}, "a.a: # refers to itself"),
        ({"properties": {"a": {"type": "text"}}}, "a: unknown type 'text'"),
        ({"properties": {"a": 5}}, "a: expected a schema, not 5"),
    ],
)
def test_a_json_schema_that_makes_no_columns_says_where(schema: Any, message: str) -> None:
    with pytest.raises(PipelineError) as failure:
        parse_json_schema(schema)
    assert message in str(failure.value)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("id INT, ID INT", "the field ID differs from id by case only; tables ignore case"),
        ("s STRUCT<x: INT, x: INT>", "the field s.x occurs twice"),
        ("_Offset INT", "the column _offset is the table's own; rename the field"),
        ("s STRUCT<>", "the struct s has no fields"),
        ("a ARRAY<TINYINT>", "a[]: a TINYINT cannot be checked in JSON; use SMALLINT"),
        ("m MAP<INT, INT>", "m: the keys of JSON objects are strings"),
        ("{nope", "not JSON"),
    ],
)
def test_columns_that_no_table_can_have_are_refused(schema: str, message: str) -> None:
    with pytest.raises(PipelineError) as failure:
        columns_of(schema)
    assert str(failure.value).startswith("format.schema: ")
    assert message in str(failure.value)


def test_a_schema_file_is_named_in_its_mistakes(tmp_path: Path) -> None:
    file = tmp_path / "order.ddl"
    file.write_text("\ufeffid BIGINT, name STRING\n")
    assert sql(columns_of(str(file))) == "id: BIGINT, name: STRING"
    file.write_text("id BIGNT")
    with pytest.raises(PipelineError, match=r"order\.ddl: the schema is not DDL: id has an unknown type"):
        columns_of(str(file))
    with pytest.raises(
        PipelineError, match=r"there is no file .*orders\.ddl \(did you mean 'order\.ddl'\?\)"
    ):
        columns_of(str(tmp_path / "orders.ddl"))
    file.write_bytes(b"\xff")
    with pytest.raises(PipelineError, match=r"order\.ddl is not text in UTF-8"):
        columns_of(str(file))
    with pytest.raises(PipelineError, match="cannot be read: Is a directory"):
        columns_of(str(tmp_path) + "/")


def test_kinds_are_told_whatever_the_form() -> None:
    assert [kind_of(one) for one in ("long", "decimal(3,1)", struct({}))] == ["long", "decimal", "struct"]
