"""Avro is written from JSON as other libraries write it, or refused."""

from __future__ import annotations

import datetime
import io
import json
import re
from decimal import Decimal
from typing import Any, Final

import fastavro
import pytest

from kafkapy.commands.decoding.avro import decoding
from kafkapy.commands.decoding.avro_writing import encoding
from kafkapy.registry.formats import parsed

NODE: Final = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "n", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
}
SHAPE: Final = {
    "type": "record",
    "name": "Shape",
    "fields": [
        {
            "name": "what",
            "type": [
                {"type": "record", "name": "Circle", "fields": [{"name": "radius", "type": "double"}]},
                {"type": "record", "name": "Square", "fields": [{"name": "side", "type": "double"}]},
            ],
        }
    ],
}
NOON: Final = datetime.datetime(2026, 11, 30, 12, 0, 0, 5000, tzinfo=datetime.UTC)


def logical(kind: str, logical_type: str, **more: object) -> dict[str, object]:
    return {"type": kind, "logicalType": logical_type, **more}


WRITTEN: Final[list[tuple[Any, Any]]] = [
    ("null", None),
    ("boolean", True),
    ("int", -(2**31)),
    ("long", 2**63 - 1),
    ("float", 0.1),
    ("double", -1.5),
    ("string", "two \u20ac"),
    ("bytes", b"\0\xff"),
    ({"type": "fixed", "name": "Four", "size": 4}, b"four"),
    ({"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}, "BLUE"),
    ({"type": "array", "items": "long"}, [1, -2, 300]),
    ({"type": "array", "items": "long"}, []),
    ({"type": "map", "values": "string"}, {"a": "b", "c": ""}),
    (["null", "string"], None),
    (["null", "string"], "text"),
    (["null", "long", "double", "string"], 5),
    (["null", "long", "double", "string"], 5.0),
    (NODE, {"n": 1, "next": {"n": 2, "next": None}}),
    (SHAPE, {"what": {"side": 2.0}}),
    (logical("int", "date"), datetime.date(2026, 11, 30)),
    (logical("int", "time-millis"), datetime.time(1, 2, 3, 4000)),
    (logical("long", "time-micros"), datetime.time(1, 2, 3, 4)),
    (logical("long", "timestamp-millis"), NOON),
    (logical("long", "timestamp-micros"), NOON),
    (logical("bytes", "decimal", precision=9, scale=2), Decimal("-123.40")),
    (logical("bytes", "decimal", precision=9, scale=0), Decimal(128)),
    (logical("fixed", "decimal", precision=9, scale=2, name="Price", size=6), Decimal("17.00")),
]


@pytest.mark.parametrize(("schema", "value"), WRITTEN, ids=str)
def test_what_is_shown_is_written_as_fastavro_writes_it(schema: Any, value: Any) -> None:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    tree = parsed("AVRO", json.dumps(schema), ()).tree
    shown = json.loads(json.dumps(decoding(tree)(stream.getvalue())))
    assert encoding(tree)(shown) == stream.getvalue()


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        ("int", 2**31, "2147483648 is too large for int"),
        ("int", 1.0, "expected a whole number, not 1.0"),
        ("int", True, "expected a whole number, not true"),
        ("float", 1e300, "1e+300 is too large for float"),
        ("bytes", "text", 'expected {"base64": …}, not "text"'),
        ("bytes", {"base64": "!"}, "the base64 cannot be decoded"),
        ({"type": "fixed", "name": "Four", "size": 4}, {"base64": "AA=="}, "1 bytes where Four has 4"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", 'expected a symbol of the enum, not "B"'),
        (NODE, {"n": 1}, "the field next is missing"),
        (NODE, {"n": 1, "next": None, "more": 1}, "there is no field more"),
        (NODE, {"n": "1", "next": None}, 'n: expected a whole number, not "1"'),
        (NODE, {"n": 1, "next": {"n": 1}}, "next: the field next is missing"),
        (["null", "string"], 5, "no branch of a union takes 5"),
        (["int", "long"], 5, "5 may be int and long of a union: which one, JSON does not say"),
        (logical("int", "date"), "30.11.2026", 'expected a date as it is shown, not "30.11.2026"'),
        (logical("long", "timestamp-millis"), "2026-11-30 12:00:00", "has no zone, such as +00:00"),
        (logical("long", "timestamp-millis"), "2026-11-30 12:00:00.000001+00:00", "fractions of a milli"),
        (logical("bytes", "decimal", precision=4, scale=2), "1.234", "more than 2 places after its point"),
        (logical("bytes", "decimal", precision=4, scale=2), "123.45", '"123.45" has more than 4 digits'),
        (logical("bytes", "decimal", precision=4, scale=2), 1.5, "expected a decimal as a text, not 1.5"),
        ({"type": "array", "items": "null"}, [None] * 100_001, "it has more than 100,000 parts"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(schema: Any, value: Any, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        encoding(parsed("AVRO", json.dumps(schema), ()).tree)(value)


def test_what_is_nested_too_deeply_is_refused() -> None:
    value: Any = None
    for number in range(200):
        value = {"n": number, "next": value}
    with pytest.raises(ValueError, match="it is nested too deeply"):
        encoding(parsed("AVRO", json.dumps(NODE), ()).tree)(value)
