"""Keys and values as text: JSON as it is written, Avro and Protobuf by their schemas."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given
from hypothesis import strategies as st

from kafkapy import Broker, Page, SchemaRegistry
from kafkapy.commands.decoding.decoder import Decoder
from kafkapy.page.shown import indented, shown
from tests.page.browsing import Browser

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
    assert shown(data, Decoder(None), kind).size == len(data)


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
            found = browser.get(f"/topics/{name}/messages?where=by.name~(?i)ann")
            assert len(found.rows) == 1


def test_protobuf_is_shown_by_the_schema_of_a_registry(broker: Broker, name: str) -> None:
    broker.create_topics({name: 1})
    with SchemaRegistry(broker.bootstrap_servers) as registry:
        with SchemaRegistryClient({"url": registry.url}) as client:
            text = 'syntax = "proto3";\nmessage Order { int32 id = 1; string by = 2; }\n'
            number = client.register_schema(f"{name}-value", Schema(text, "PROTOBUF"))
        head = b"\0" + number.to_bytes(4, "big") + b"\0"
        broker.produce(name, value=head + b"\x08\x11\x12\x03Ann")
        broker.produce(name, value=head + b"\x08\x12\x12\x03Bob")
        with Page(broker.bootstrap_servers, schema_registry=registry.url) as page:
            browser = Browser(page.url)
            assert "protobuf" in browser.get(f"/topics/{name}/0/0").text
            found = browser.get(f"/topics/{name}/messages?where=id%3E17")
            assert [row[3].partition("}")[0] for row in found.rows] == ['{"id": 18, "by": "Bob"']


def test_a_missing_package_is_named_beside_the_bytes(
    broker: Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topics({name: 1})
    with SchemaRegistry(broker.bootstrap_servers) as registry:
        with SchemaRegistryClient({"url": registry.url}) as client:
            number = client.register_schema(f"{name}-value", Schema('"bytes"', "AVRO"))
        broker.produce(name, value=b"\0" + number.to_bytes(4, "big") + b"\x02a")
        monkeypatch.setitem(sys.modules, "kafkapy.commands.decoding.avro", None)
        monkeypatch.delattr("kafkapy.commands.decoding.avro", raising=False)
        with Page(broker.bootstrap_servers, schema_registry=registry.url) as page:
            browser = Browser(page.url)
            assert "is not installed: pip install" in browser.get(f"/topics/{name}/0/0").text
            refused = browser.get(f"/topics/{name}/messages?where=id=1")
            assert "is not installed: pip install" in refused.problem
