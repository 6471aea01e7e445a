"""What products cost, in Avro with a schema registry. Written with confluent-kafka."""

from __future__ import annotations

from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from shop.reading import read_all
from shop.topics import PRICES

SCHEMA = """
{"type": "record", "name": "Price", "namespace": "shop", "fields": [
  {"name": "product", "type": "string"},
  {"name": "cents", "type": "int"}
]}
"""
_CONTEXT = SerializationContext(PRICES, MessageField.VALUE)


def publish(servers: str, registry: str, prices: dict[str, int], *, schema: str = SCHEMA) -> None:
    """Write the prices of products, with a schema that the registry accepts.

    Raises:
        SchemaRegistryError: readers of earlier prices could not read it.
        SerializationError: a price does not fit the schema.
    """
    producer = Producer({"bootstrap.servers": servers, "client.id": "prices", "linger.ms": 0})
    with SchemaRegistryClient({"url": registry}) as client:
        serialize = AvroSerializer(client, schema)
        for product, cents in prices.items():
            value = serialize({"product": product, "cents": cents}, _CONTEXT)
            producer.produce(PRICES, key=product, value=value, partition=0)
    producer.flush(20)


def read(servers: str, registry: str) -> dict[str, int]:
    """The last price of each product, in cents."""
    with SchemaRegistryClient({"url": registry}) as client:
        deserialize = AvroDeserializer(client, SCHEMA)
        read = [deserialize(record.value(), _CONTEXT) for record in read_all(servers, PRICES)]
    return {price["product"]: price["cents"] for price in read}
