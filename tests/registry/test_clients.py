"""Confluent's client and serializers and the pipeline's reader use the registry."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kafkapy import Broker, SchemaRegistry
from kafkapy.pipeline.formats.registry import Registry
from tests.registry.schemas import ONE, WITH_OPTIONAL, WITH_REQUIRED, record

PERSON = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Person",
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
}
CUSTOMER_PROTO = """
syntax = "proto3";
package {package};
message Customer {{ string name = 1; }}
"""
ORDER_PROTO = """
syntax = "proto3";
package {package};
import "{package}/customer.proto";
import "google/protobuf/timestamp.proto";
message Order {{
  message Line {{ string what = 1; }}
  int32 id = 1;
  Customer customer = 2;
  repeated Line lines = 3;
  map<string, int32> amounts = 4;
  google.protobuf.Timestamp at = 5;
}}
"""


@pytest.fixture
def client(registry: SchemaRegistry) -> Iterator[SchemaRegistryClient]:
    """Confluent's client of the registry."""
    with SchemaRegistryClient({"url": registry.url}) as opened:
        yield opened


@pytest.fixture
def reader(registry: SchemaRegistry) -> Iterator[SchemaRegistryClient]:
    """A client that has cached nothing of the other's."""
    with SchemaRegistryClient({"url": registry.url}) as opened:
        yield opened


@pytest.fixture
def topic() -> str:
    """A topic that no other test uses."""
    return f"t{uuid.uuid4().hex}"


def through(broker: Broker, topic: str, data: bytes) -> bytes:
    """The bytes of a record that a client has written and read."""
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    producer = Producer(servers)
    producer.produce(topic, value=data)
    assert producer.flush(20) == 0
    consumer = Consumer({**servers, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    (record,) = consumer.consume(1, timeout=20)
    consumer.close()
    value = record.value()
    assert isinstance(value, bytes)
    return value


def test_avro_is_written_and_read(
    client: SchemaRegistryClient, reader: SchemaRegistryClient, broker: Broker, topic: str
) -> None:
    context = SerializationContext(topic, MessageField.VALUE)
    data = AvroSerializer(client, ONE)({"id": 7}, context)
    assert data is not None
    read = AvroDeserializer(reader, WITH_OPTIONAL)
    assert read(through(broker, topic, data), context) == {"id": 7, "note": ""}
    with pytest.raises(SchemaRegistryError) as refused:
        AvroSerializer(client, WITH_REQUIRED)({"id": 7, "note": "x"}, context)
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 40901)


def test_json_is_written_and_read(
    client: SchemaRegistryClient, reader: SchemaRegistryClient, broker: Broker, topic: str
) -> None:
    context = SerializationContext(topic, MessageField.VALUE)
    data = JSONSerializer(json.dumps(PERSON), client)({"name": "Ada"}, context)
    assert data is not None
    read = JSONDeserializer(None, schema_registry_client=reader)
    assert read(through(broker, topic, data), context) == {"name": "Ada"}


def test_protobuf_is_written_and_read(
    client: SchemaRegistryClient, reader: SchemaRegistryClient, broker: Broker, topic: str, tmp_path: Path
) -> None:
    order = message_class(tmp_path, topic)
    message = order(id=7, amounts={"apples": 2}, lines=[{"what": "apple"}], customer={"name": "Ada"})
    context = SerializationContext(topic, MessageField.VALUE)
    client.set_compatibility(f"{topic}-value", "NONE")
    data = ProtobufSerializer(order, client)(message, context)
    assert data is not None
    read = ProtobufDeserializer(order, schema_registry_client=reader)
    assert read(through(broker, topic, data), context) == message
    shown = client.get_latest_version(f"{topic}-value").schema
    assert shown.schema_str is not None
    assert shown.schema_str.startswith('syntax = "proto3"')
    assert [each.name for each in shown.references] == [
        f"{topic}/customer.proto",
        "google/protobuf/timestamp.proto",
    ][: len(shown.references)]
    # The schema as text, with its references, is the same.
    assert client.lookup_schema(f"{topic}-value", shown).version == 1


def test_confluents_client_administers_it(client: SchemaRegistryClient, topic: str) -> None:
    subject = f"{topic}-value"
    one, two = Schema(ONE, "AVRO"), Schema(WITH_OPTIONAL, "AVRO")
    schema_id = client.register_schema(subject, one)
    full = client.register_schema_full_response(subject, two, normalize_schemas=True)
    assert (client.get_schema(schema_id).schema_str, full.version) == (ONE, 2)
    assert client.lookup_schema(subject, one).schema_id == schema_id
    assert client.get_versions(subject) == [1, 2]
    assert client.get_latest_version(subject).version == 2
    assert client.get_version(subject, 1).schema_id == schema_id
    assert subject in client.get_subjects()
    assert client.test_compatibility(subject, one)
    assert not client.test_compatibility(subject, Schema(record(("id", "string")), "AVRO"))
    client.set_compatibility(subject, "FULL_TRANSITIVE")
    assert client.get_compatibility(subject) == "FULL_TRANSITIVE"
    assert client.update_mode(subject, "READONLY") == client.get_mode(subject) == "READONLY"
    client.update_mode(subject, "READWRITE")
    assert client.delete_version(subject, 1) == 1
    assert client.delete_subject(subject) == [2]
    assert client.delete_subject(subject, permanent=True) == [1, 2]
    assert subject not in client.get_subjects()


def test_confluents_client_keeps_references(client: SchemaRegistryClient, topic: str) -> None:
    client.register_schema(f"{topic}-a", Schema(record(("id", "int"), name="A"), "AVRO"))
    reference = SchemaReference("A", f"{topic}-a", 1)
    schema_id = client.register_schema(
        f"{topic}-b", Schema(record(("a", "A"), name="B"), "AVRO", [reference])
    )
    assert client.get_schema(schema_id).references == [reference]
    assert client.get_referenced_by(f"{topic}-a", 1) == [schema_id]


def test_the_pipeline_reads_it(client: SchemaRegistryClient, registry: SchemaRegistry, topic: str) -> None:
    customer = record(("id", "int"), name="Customer")
    client.register_schema(f"{topic}-a", Schema(customer, "AVRO"))
    order = record(("customer", "Customer"))
    reference = SchemaReference("Customer", f"{topic}-a", 1)
    schema_id = client.register_schema(f"{topic}-b", Schema(order, "AVRO", [reference]))
    pipelines = Registry(registry.url)
    with closing(pipelines._client):  # whose connection lives as long as a run
        pipelines.check()
        found = pipelines.schema(schema_id)
        assert found is not None
        assert (found.kind, found.text, found.references) == ("AVRO", order, {"Customer": customer})
        assert pipelines.schema(99_999) is None


def message_class(folder: Path, package: str) -> Any:
    """The class of the message Order, made by protoc in a package of its own."""
    (folder / package).mkdir()
    (folder / package / "customer.proto").write_text(CUSTOMER_PROTO.format(package=package))
    (folder / package / "order.proto").write_text(ORDER_PROTO.format(package=package))
    output = folder / "descriptors"
    options = (f"-I{folder}", "--include_imports", f"--descriptor_set_out={output}", f"{package}/order.proto")
    subprocess.run((sys.executable, "-m", "grpc_tools.protoc", *options), check=True)
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes()).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.Order"))
