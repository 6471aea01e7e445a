"""Avro schemas: read, turned into columns, and many writers' made into one reader's."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from kafkapy.pipeline.formats.avro_columns import avro_columns
from kafkapy.pipeline.formats.avro_evolution import evolved, logical_conflict, widened
from kafkapy.pipeline.formats.avro_schema import AvroSchema
from kafkapy.pipeline.formats.spark_types import sql_name
from kafkapy.pipeline.pipeline_error import PipelineError


def record(*fields: Any, name: str = "Order", **further: Any) -> dict[str, Any]:
    """Of fields as (name, type) or (name, type, default)."""
    named = [
        {"name": one[0], "type": one[1], **({"default": one[2]} if len(one) == 3 else {})} for one in fields
    ]
    return {"type": "record", "name": name, "fields": named, **further}


def parsed(schema: Any, *references: Any) -> AvroSchema:
    return AvroSchema.parse(json.dumps(schema), [json.dumps(one) for one in references])


def columns(schema: AvroSchema) -> str:
    return sql_name(avro_columns(schema)).removeprefix("STRUCT<")[:-1]


def logical(kind: str, name: str, **further: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **further}


ENUM = {"type": "enum", "name": "Status", "symbols": ["NEW", "PAID"]}
FIXED = {"type": "fixed", "name": "Hash", "size": 4}
ITEM = record(("sku", "string"), name="Item")


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("boolean", "BOOLEAN"), ("int", "INT"), ("long", "BIGINT"), ("float", "FLOAT"), ("double", "DOUBLE"),
        ("string", "STRING"), ("bytes", "BINARY"), (ENUM, "STRING"), (FIXED, "BINARY"),
        (logical("string", "uuid"), "STRING"), (logical("int", "date"), "DATE"),
        (logical("int", "time-millis"), "INT"), (logical("long", "time-micros"), "BIGINT"),
        (logical("long", "timestamp-millis"), "TIMESTAMP"),
        (logical("long", "timestamp-micros"), "TIMESTAMP"),
        (logical("long", "timestamp-nanos"), "BIGINT"),
        (logical("long", "local-timestamp-millis"), "TIMESTAMP_NTZ"),
        (logical("bytes", "decimal", precision=10, scale=2), "DECIMAL(10,2)"),
        ({**FIXED, "logicalType": "decimal", "precision": 9}, "DECIMAL(9,0)"),
        (["null", "string"], "STRING"), (["string", "null"], "STRING"), (["int", "long"], "BIGINT"),
        (["null", "float", "double"], "DOUBLE"),
        (["null", "string", "int"], "STRUCT<member_string: STRING, member_int: INT>"),
        (["string", ITEM, {"type": "array", "items": "int"}],
         "STRUCT<member_string: STRING, member_item: STRUCT<sku: STRING>, member_array: ARRAY<INT>>"),
        ({"type": "array", "items": ["null", ITEM]}, "ARRAY<STRUCT<sku: STRING>>"),
        ({"type": "map", "values": {"type": "map", "values": "bytes"}}, "MAP<STRING, MAP<STRING, BINARY>>"),
        ({"type": {"type": "string", "avro.java.string": "String"}}, "STRING"),
        (ITEM, "STRUCT<sku: STRING>"),
    ],
)  # fmt: skip
def test_types_become_those_of_spark(kind: Any, column: str) -> None:
    assert columns(parsed(record(("a", kind)))) == f"a: {column}"


def test_a_root_that_is_no_record_is_one_column() -> None:
    assert columns(AvroSchema.parse("string")) == "value: STRING"
    assert columns(parsed({"type": "array", "items": "long"})) == "value: ARRAY<BIGINT>"
    assert columns(parsed(["null", record(("id", "long"))])) == "id: BIGINT"


def test_names_are_resolved_within_their_namespaces() -> None:
    inner = record(("x", "int"), name="Inner")
    other = record(("y", "int"), name="Plain", namespace="")
    schema = record(
        ("a", inner), ("b", "Inner"), ("c", "shop.Inner"), ("d", other), ("e", "Plain"), namespace="shop"
    )
    read = parsed(schema)
    assert columns(read) == ", ".join(
        [*(f"{name}: STRUCT<x: INT>" for name in "abc"), *(f"{name}: STRUCT<y: INT>" for name in "de")]
    )
    # What is written back means the same to any reader.
    again = AvroSchema.parse(read.text())
    assert columns(again) == columns(read)
    fastavro.parse_schema(json.loads(read.text()))


def test_types_of_referenced_schemas_are_known() -> None:
    address = record(("zip", "string"), name="Address", namespace="shop")
    customer = record(("home", "shop.Address"), name="Customer", namespace="shop")
    schema = parsed(record(("by", "shop.Customer"), ("to", "shop.Address")), address, customer)
    assert columns(schema) == "by: STRUCT<home: STRUCT<zip: STRING>>, to: STRUCT<zip: STRING>"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{nope", "not an Avro schema: not JSON"),
        (json.dumps({"name": "x"}), "the schema: expected an Avro type"),
        (json.dumps(record(("a", "strnig"))), "a: unknown Avro type 'strnig' (did you mean 'string'?)"),
        (json.dumps(record(("s", record(("x", "Nope"), name="In")))), "s.x: unknown Avro type 'Nope'"),
        (json.dumps(record(("a", ["null", ["int", "null"]]))), "a: a union is directly within a union"),
        (json.dumps(record(("a b", "int"))), "a field's name has letters, digits and _ only"),
        (json.dumps({"type": "record", "name": "x-y", "fields": []}), "needs a name of letters"),
        (json.dumps({"type": "record", "name": "x"}), "has no list of fields"),
        (json.dumps({"type": "enum", "name": "x"}), "has no list of symbols"),
        (json.dumps(record(("a", ENUM), ("b", ENUM))), "b: Status is defined twice"),
        (json.dumps(record(("a", {"type": "array"}))), "a: the array has no 'items'"),
        (json.dumps(record(("a", logical("bytes", "decimal", precision=50)))), "is not a DECIMAL"),
        (json.dumps(record(("next", ["null", "Order"]))), "next is recursive (Order within itself)"),
        (json.dumps(record(("a", "null"))), "a can only be null"),
        (json.dumps(record(("_key", "int"))), "the column _key is the table's own"),
        (json.dumps(record(("id", "int"), ("Id", "int"))), "differs from id by case only"),
        (json.dumps(record()), "the schema has no fields"),
    ],
)  # fmt: skip
def test_what_cannot_be_columns_is_one_line_that_says_where(schema: str, message: str) -> None:
    with pytest.raises(PipelineError) as failure:
        avro_columns(AvroSchema.parse(schema))
    assert message in str(failure.value)
    assert "\n" not in str(failure.value)


def reader_of(*writers: Any) -> AvroSchema:
    reader = widened(parsed(writers[0]))
    for one in writers[1:]:
        reader = evolved(reader, parsed(one))
    return reader


def read(writer: Any, value: Any, reader: AvroSchema) -> Any:
    """What Avro's rules make of a value, by another implementation than Spark's."""
    content = io.BytesIO()
    theirs = parsed(writer)
    fastavro.schemaless_writer(content, fastavro.parse_schema(json.loads(theirs.text())), value)
    content.seek(0)
    return fastavro.schemaless_reader(
        content,
        fastavro.parse_schema(json.loads(theirs.text())),
        fastavro.parse_schema(json.loads(reader.text())),
    )


def test_columns_are_those_of_all_writers() -> None:
    first = record(("id", "int"), ("gone", "string"))
    second = record(("id", "long"), ("note", ["null", "string"], None), ("currency", "string", "EUR"))
    third = record(("id", "long"), ("must", "double"))
    reader = reader_of(first, second, third)
    assert columns(reader) == "id: BIGINT, gone: STRING, note: STRING, currency: STRING, must: DOUBLE"
    assert read(first, {"id": 1, "gone": "x"}, reader) == {
        "id": 1, "gone": "x", "note": None, "currency": "EUR", "must": None,
    }  # fmt: skip
    assert read(third, {"id": 2**40, "must": 0.5}, reader) == {
        "id": 2**40, "gone": None, "note": None, "currency": "EUR", "must": 0.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("known", "new", "column"),
    [
        ("int", "long", "BIGINT"),
        ("float", "double", "DOUBLE"),
        ("long", "string", "BIGINT"),
        ("string", ["null", "string"], "STRING"),
        ("string", ["string", "int"], "STRING"),
        (["string", "int"], ["string", "boolean"], "STRUCT<member_string: STRING, member_long: BIGINT, "
                                                   "member_boolean: BOOLEAN>"),
        (ITEM, record(("sku", "string"), ("size", "int"), name="Item"), "STRUCT<sku: STRING, size: BIGINT>"),
        (ITEM, record(("size", "int"), name="Renamed"), "STRUCT<sku: STRING, size: BIGINT>"),
        ({"type": "array", "items": ITEM}, {"type": "array", "items": record(("x", "int"), name="Item")},
         "ARRAY<STRUCT<sku: STRING, x: BIGINT>>"),
        (logical("bytes", "decimal", precision=4, scale=2), logical("bytes", "decimal", precision=9, scale=2),
         "DECIMAL(4,2)"),
    ],
)  # fmt: skip
def test_a_column_keeps_its_first_type_and_structs_grow(known: Any, new: Any, column: str) -> None:
    first, second = record(("a", known)), record(("a", new))
    reader = reader_of(first, second)
    assert columns(reader) == f"a: {column}"
    assert evolved(reader, parsed(second)).text() == reader.text(), "meeting a writer again changes nothing"
    fastavro.parse_schema(json.loads(reader.text()))


def test_enums_take_in_new_symbols_and_new_names() -> None:
    first = record(("status", ENUM))
    second = record(("status", {"type": "enum", "name": "State", "symbols": ["SENT", "NEW"]}))
    reader = reader_of(first, second)
    assert reader.named["avro.Status"]["symbols"] == ["NEW", "PAID", "SENT"]
    assert read(first, {"status": "PAID"}, reader) == {"status": "PAID"}
    assert reader.named["avro.Status"]["aliases"] == ["avro.State"]


def test_a_default_of_another_type_counts_as_none() -> None:
    reader = reader_of(
        record(("id", "int"), ("a", "long", "x"), ("b", ["null", "long"], 5)), record(("id", "int"))
    )
    defaults = [one.get("default", "none") for one in reader.named["avro.Order"]["fields"]]
    assert defaults == ["none", None, None]


@pytest.mark.parametrize(
    ("wrote", "reads", "conflict"),
    [
        (logical("long", "timestamp-millis"), logical("long", "timestamp-micros"),
         "a is timestamp-millis where the table has timestamp-micros"),
        (["null", logical("bytes", "decimal", precision=9, scale=2)],
         logical("bytes", "decimal", precision=9, scale=4),
         "a is decimal(9,2) where the table has decimal(9,4)"),
        (logical("bytes", "decimal", precision=9, scale=2), logical("bytes", "decimal", precision=8, scale=2),
         "a is decimal(9,2) where the table has decimal(8,2)"),
        ("bytes", logical("bytes", "decimal", precision=8, scale=2),
         "a is bytes where the table has decimal(8,2)"),
        (logical("bytes", "decimal", precision=8, scale=2),
         logical("bytes", "decimal", precision=9, scale=2), None),
        ("long", logical("long", "timestamp-millis"), None),
        ("string", "string", None),
    ],
)  # fmt: skip
def test_numbers_of_another_meaning_are_not_read(wrote: Any, reads: Any, conflict: str | None) -> None:
    assert logical_conflict(parsed(record(("a", wrote))), parsed(record(("a", reads)))) == conflict


def test_a_conflict_is_found_within_and_under_another_name() -> None:
    old = record(("s", record(("at", logical("long", "timestamp-millis")), name="In")))
    new = record(("s", record(("when", logical("long", "timestamp-micros")), name="In")))
    new["fields"][0]["type"]["fields"][0]["aliases"] = ["at"]
    assert logical_conflict(parsed(old), parsed(new)) == (
        "s.when is timestamp-millis where the table has timestamp-micros"
    )
