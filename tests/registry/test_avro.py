"""What Apache Avro's library says of two schemas is what Avro's specification says of them."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from kafkapy.registry.formats import parsed, unreadable
from tests.registry.schemas import record


def enum(*symbols: str, **further: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **further}


def fixed(size: int) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": size}


TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [
        {"name": "value", "type": "int"},
        {"name": "next", "type": ["null", "Tree"], "default": None},
    ],
}
LONG_TREE = json.loads(json.dumps(TREE).replace('"int"', '"long"'))
NULL = {"default": None}

READABLE: list[tuple[str, Any, Any, list[Any]]] = [
    # what it shows, the reader's type of a field, the writer's, values that the writer may write
    ("int as long", "long", "int", [1, -(2**31)]),
    ("int as float", "float", "int", [1]),
    ("int as double", "double", "int", [1]),
    ("long as float", "float", "long", [2**40]),
    ("long as double", "double", "long", [1]),
    ("float as double", "double", "float", [0.5]),
    ("string as bytes", "bytes", "string", ["ä"]),
    ("bytes as string", "string", "bytes", [b"a"]),
    ("a type in a union", ["null", "string"], "string", ["a"]),
    ("a promoted type in a union", ["null", "long"], "int", [1]),
    ("a union of the reader's type alone", "string", ["string"], ["a"]),
    ("a union in a wider one", ["null", "string", "int"], ["string", "null"], ["a", None]),
    ("a union in another order", ["string", "null"], ["null", "string"], ["a", None]),
    ("fewer symbols", enum("A", "B"), enum("A"), ["A"]),
    ("an unknown symbol with a default", enum("A", default="A"), enum("A", "B"), ["A", "B"]),
    ("a fixed of the same size", fixed(4), fixed(4), [b"abcd"]),
    ("items that are promoted", {"type": "array", "items": "long"}, {"type": "array", "items": "int"}, [[1]]),
    (
        "values that are promoted",
        {"type": "map", "values": "long"},
        {"type": "map", "values": "int"},
        [{"a": 1}],
    ),
    ("a type that contains itself", LONG_TREE, TREE, [{"value": 1, "next": {"value": 2, "next": None}}]),
    (
        "a decimal as bytes",
        "bytes",
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
        [],
    ),
]
UNREADABLE: list[tuple[str, Any, Any, list[Any]]] = [
    ("long as int", "int", "long", [2**40]),
    ("double as float", "float", "double", [0.1]),
    ("a string as a number", "int", "string", ["a"]),
    ("a number as a string", "string", "int", [1]),
    ("boolean as int", "int", "boolean", [True]),
    ("a type that is not in the union", ["null", "int"], "string", ["a"]),
    ("a union with a type more", "string", ["null", "string"], [None]),
    ("a union in a narrower one", ["null", "string"], ["null", "int"], [1]),
    ("an unknown symbol", enum("A"), enum("A", "B"), ["B"]),
    ("a fixed of another size", fixed(4), fixed(5), [b"abcde"]),
    ("fixed as bytes", "bytes", fixed(4), [b"abcd"]),
    (
        "items that do not fit",
        {"type": "array", "items": "int"},
        {"type": "array", "items": "string"},
        [["a"]],
    ),
    (
        "values that do not fit",
        {"type": "map", "values": "int"},
        {"type": "map", "values": "string"},
        [{"a": "b"}],
    ),
    ("an array as a map", {"type": "map", "values": "int"}, {"type": "array", "items": "int"}, [[1]]),
    ("a type that contains itself", TREE, LONG_TREE, [{"value": 2**40, "next": None}]),
]


def reasons(reader: str, writer: str) -> list[str] | None:
    return unreadable("AVRO", parsed("AVRO", reader, ()), parsed("AVRO", writer, ()))


def read(reader: str, writer: str, value: Any) -> Any:
    """A value that one schema has written, read by another with fastavro."""
    data = io.BytesIO()
    fastavro.schemaless_writer(data, json.loads(writer), value)
    data.seek(0)
    return fastavro.schemaless_reader(data, json.loads(writer), json.loads(reader))


@pytest.mark.parametrize(
    ("reader", "writer", "values"), [row[1:] for row in READABLE], ids=[row[0] for row in READABLE]
)
def test_can_be_read(reader: Any, writer: Any, values: list[Any]) -> None:
    schemas = record(("f", reader)), record(("f", writer))
    assert reasons(*schemas) == []
    for value in values:
        assert read(*schemas, {"f": value}).keys() == {"f"}


@pytest.mark.parametrize(
    ("reader", "writer", "values"), [row[1:] for row in UNREADABLE], ids=[row[0] for row in UNREADABLE]
)
def test_cannot_be_read(reader: Any, writer: Any, values: list[Any]) -> None:
    schemas = record(("f", reader)), record(("f", writer))
    assert reasons(*schemas)


def test_a_field_may_come_with_a_default_and_go() -> None:
    one, two = record(("a", "int")), record(("a", "int"), {"name": "b", "type": ["null", "int"], **NULL})
    assert reasons(two, one) == reasons(one, two) == []
    assert read(two, one, {"a": 1}) == {"a": 1, "b": None}


def test_a_field_without_a_default_may_go_only() -> None:
    one, two = record(("a", "int")), record(("a", "int"), ("b", "int"))
    assert reasons(one, two) == []
    assert reasons(two, one) == ["READER_FIELD_MISSING_DEFAULT_VALUE at /fields/1: b"]


def test_a_field_has_the_names_of_its_aliases() -> None:
    old, new = record(("a", "int")), record({"name": "b", "type": "int", "aliases": ["a"]})
    assert reasons(new, old) == []
    assert reasons(old, new)
    assert read(new, old, {"a": 1}) == {"b": 1}


@pytest.mark.parametrize("alias", ["Old", "shop.Old"])
def test_a_record_has_the_names_of_its_aliases(alias: str) -> None:
    old, new = (json.loads(record(("a", "int"), name=name)) for name in ("Old", "New"))
    old["namespace"] = new["namespace"] = "shop"
    assert reasons(json.dumps(new), json.dumps(old))
    assert reasons(json.dumps({**new, "aliases": [alias]}), json.dumps(old)) == []


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("int", "a"),
        ("int", 2**31),
        ("int", True),
        ("long", 0.5),
        ("string", 1),
        ("boolean", "true"),
        ("bytes", "Ā"),
        (fixed(2), "abc"),
        (enum("A"), "B"),
        (["null", "string"], "a"),
        ({"type": "array", "items": "int"}, ["a"]),
        ({"type": "map", "values": "int"}, {"a": "b"}),
        (json.loads(record(("a", "int"), name="Inner")), {}),
    ],
)
def test_a_default_that_is_no_value_of_its_type_is_refused(kind: Any, default: Any) -> None:
    with pytest.raises(ValueError, match="invalid default for field f"):
        parsed("AVRO", record({"name": "f", "type": kind, "default": default}), ())


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("int", 1),
        ("double", 1),
        ("bytes", "\u00ff"),
        (["null", "string"], None),
        ({"type": "long", "logicalType": "timestamp-millis"}, 0),
        (json.loads(record({"name": "a", "type": "int", "default": 1}, name="Inner")), {}),
    ],
)
def test_a_default_that_is_a_value_of_its_type_is_taken(kind: Any, default: Any) -> None:
    parsed("AVRO", record({"name": "f", "type": kind, "default": default}), ())


def test_a_logical_type_that_does_not_fit_is_ignored() -> None:
    schema = '{"type":"string","logicalType":"timestamp-millis"}'
    assert parsed("AVRO", schema, ()).text == schema


@pytest.mark.parametrize(
    "text",
    ["", "{", "1", '{"type":"record","name":"R","fields":5}', "[" * 5000, '{"a":NaN}', '"int" "int"'],
)
def test_what_is_no_avro_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parsed("AVRO", text, ())


def test_a_record_has_a_bound_on_its_fields() -> None:
    with pytest.raises(ValueError, match="a record has 2001 fields; 2000 are allowed here"):
        parsed("AVRO", record(*((f"f{number}", "int") for number in range(2001))), ())
