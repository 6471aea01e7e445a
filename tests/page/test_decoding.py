"""Keys and values as text: JSON as it is written, and Avro by its schema."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given
from hypothesis import strategies as st

from kafkapy import Broker, Page, SchemaRegistry
from kafkapy.page.decoding.avro import AvroSchema
from kafkapy.page.decoding.shown import Decoder, indented
from tests.page.browsing import Browser

EVERYTHING = {
    "type": "record",
    "name": "Everything",
    "namespace": "of.all",
    "fields": [
        {"name": "n", "type": "null"},
        {"name": "b", "type": "boolean"},
        {"name": "i", "type": "int"},
        {"name": "l", "type": "long"},
        {"name": "d", "type": "double"},
        {"name": "s", "type": "string"},
        {"name": "e", "type": {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}},
        {"name": "a", "type": {"type": "array", "items": ["null", "long", "Colour"]}},
        {"name": "m", "type": {"type": "map", "values": "of.all.Colour"}},
        {"name": "o", "type": ["null", "Everything"]},
    ],
}
LEAVES = st.fixed_dictionaries(
    {
        "n": st.none(),
        "b": st.booleans(),
        "i": st.integers(-(2**31), 2**31 - 1),
        "l": st.integers(-(2**63), 2**63 - 1),
        "d": st.floats(allow_nan=False),
        "s": st.text(),
        "e": st.sampled_from(["RED", "BLUE"]),
        "a": st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))),
        "m": st.dictionaries(st.text(), st.sampled_from(["RED", "BLUE"])),
        "o": st.none(),
    }
)
VALUES = st.builds(lambda outer, inner: {**outer, "o": inner}, LEAVES, st.one_of(st.none(), LEAVES))


@given(VALUES)
def test_avro_is_read_as_fastavro_reads_it(value: dict[str, Any]) -> None:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, EVERYTHING, value)
    read = AvroSchema(EVERYTHING).decode(written.getvalue())
    assert read == fastavro.schemaless_reader(io.BytesIO(written.getvalue()), EVERYTHING, None)


@pytest.mark.parametrize(
    ("schema", "data", "problem"),
    [
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\x3f", "more than 100,000 values"),
        ({"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}, b"", "nested too deeply"),
        ("string", b"\xfe\xff\xff\xff\x0f", "ends too early"),
        ("long", b"\xff" * 11, "too many bytes"),
        (["null"], b"\x04", "no branch of a union 2"),
        ("int", b"\x02\x02", "1 bytes are left"),
        ("missing", b"", "does not define missing"),
    ],
)
def test_avro_that_cannot_be_read_is_refused(schema: Any, data: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        AvroSchema(schema).decode(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_as_avro_or_refused(data: bytes) -> None:
    try:
        AvroSchema(EVERYTHING).decode(data)
    except ValueError:
        return


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_indented_json_has_the_same_value(value: Any) -> None:
    assert json.loads(indented(json.dumps(value))) == value


@given(st.binary(max_size=300), st.sampled_from(["auto", "text", "json", "hex", "integer"]))
def test_any_bytes_are_shown_in_every_form(data: bytes, kind: str) -> None:
    assert Decoder(None).shown(data, kind).size == len(data)


def test_avro_and_json_are_shown_by_the_schemas_of_a_registry(broker: Broker, name: str) -> None:
    broker.create_topics({name: 1})
    context = SerializationContext(name, MessageField.VALUE)
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "int"}, {"name": "by", "type": "people.Person"}],
    }
    person = {
        "type": "record",
        "name": "Person",
        "namespace": "people",
        "fields": [{"name": "name", "type": "string"}],
    }
    with SchemaRegistry(broker.bootstrap_servers) as registry:
        with SchemaRegistryClient({"url": registry.url}) as client:
            from confluent_kafka.schema_registry import SchemaReference

            client.register_schema("person", Schema(json.dumps(person), "AVRO"))
            reference = SchemaReference("people.Person", "person", 1)
            serialize = AvroSerializer(client, Schema(json.dumps(schema), "AVRO", [reference]))
            broker.produce(name, value=serialize({"id": 17, "by": {"name": "Ann"}}, context))
            broker.produce(name, value=b"\0\0\0\x03\xe7whatever")
        with Page(broker.bootstrap_servers, schema_registry=registry.url) as page:
            browser = Browser(page.url)
            view = browser.get(f"/topics/{name}/0/0")
            assert "avro" in view.text
            assert "schema 2" in view.text
            rows = browser.get(f"/topics/{name}/messages").rows
            assert rows[1][3].startswith('{"id": 17, "by": {"name": "Ann"}}')
            assert "schema 999" in browser.get(f"/topics/{name}/0/1").text
            found = browser.get(f"/topics/{name}/messages?filter=$.by.name%20~%20%22ann%22")
            assert len(found.rows) == 1
