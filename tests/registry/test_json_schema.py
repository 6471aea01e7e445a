"""JSON Schemas are checked by their draft, and their references followed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkapy.registry.formats import parsed, unreadable

DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": "object", "properties": {"a": {"type": "integer"}}},
        {"$schema": DRAFT_7, "$ref": "#/definitions/a", "definitions": {"a": {"type": "string"}}},
        {"$id": "https://shop/order", "$defs": {"a": {"$anchor": "x"}}, "$ref": "#x"},
        {"properties": {"next": {"$ref": "#"}}},
        {"properties": {"$ref": {"type": "string"}}, "default": {"$ref": "none"}},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
    ],
)
def test_is_taken(schema: Any) -> None:
    assert json.loads(parsed("JSON", json.dumps(schema), ()).text) == schema


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "thing"}, "'thing' is not valid"),
        ({"properties": {"a": {"minimum": "x"}}}, r"at /properties/a/minimum"),
        ({"$ref": "#/none"}, r"\$ref /none leads to nothing"),
        ({"properties": {"a": {"$ref": "other.json"}}}, r"\$ref other.json leads to nothing"),
        ({"$schema": "https://shop/own"}, "is not known"),
        (5, "a JSON Schema is an object"),
    ],
)
def test_is_refused(schema: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parsed("JSON", json.dumps(schema), ())


def test_a_reference_has_its_name_as_uri() -> None:
    customer = json.dumps(
        {"$id": "https://shop/customer", "type": "object", "$defs": {"id": {"type": "integer"}}}
    )
    order = json.dumps(
        {"properties": {"a": {"$ref": "customer.json"}, "b": {"$ref": "customer.json#/$defs/id"}}}
    )
    parsed("JSON", order, (("customer.json", customer),))


def test_numbers_are_kept_as_they_are_written() -> None:
    schema = '{ "multipleOf": 0.10000000000000000001, "maximum": 1e2 }'
    assert parsed("JSON", schema, ()).text == '{"multipleOf":0.10000000000000000001,"maximum":1e2}'


def test_only_the_same_schema_is_judged() -> None:
    one, same, other = (parsed("JSON", text, ()) for text in ('{"a":1,"b":2}', '{ "b":2, "a":1}', "{}"))
    assert unreadable("JSON", one, same) == []
    assert unreadable("JSON", one, other) is None


def test_a_reference_into_a_number_leads_to_nothing() -> None:
    with pytest.raises(ValueError, match="leads into what has no parts"):
        parsed("JSON", '{"$ref":"#/a/0","a":1}', ())
