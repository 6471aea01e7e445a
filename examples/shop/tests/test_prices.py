"""Prices: Avro with a schema registry, which runs beside each test's broker."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import SerializationError
from shop import prices
from shop.topics import PRICES as TOPIC

import kafkapy
from tests.seed import PRICES


def schema(*more: dict[str, object]) -> str:
    """The schema of prices with more fields."""
    changed = json.loads(prices.SCHEMA)
    return json.dumps({**changed, "fields": [*changed["fields"], *more]})


@pytest.fixture
def registry(schema_registry: kafkapy.SchemaRegistry) -> str:
    return schema_registry.url


def test_prices_are_read_as_they_were_published(servers: str, registry: str) -> None:
    prices.publish(servers, registry, PRICES)
    assert prices.read(servers, registry) == PRICES


def test_a_later_price_counts(servers: str, registry: str) -> None:
    prices.publish(servers, registry, PRICES)
    prices.publish(servers, registry, {"apple": 35})
    assert prices.read(servers, registry) == {**PRICES, "apple": 35}


def test_records_begin_with_the_id_of_their_schema(
    kafka_broker: kafkapy.Broker, servers: str, registry: str
) -> None:
    prices.publish(servers, registry, {"apple": 30})
    (record,) = kafka_broker.topic(TOPIC).records(1)
    with SchemaRegistryClient({"url": registry}) as client:
        version = client.get_latest_version(f"{TOPIC}-value")
    assert record.value[:5] == b"\0" + version.schema_id.to_bytes(4, "big")


def test_a_field_with_a_default_may_be_added(servers: str, registry: str) -> None:
    prices.publish(servers, registry, {"apple": 30})
    more = schema({"name": "currency", "type": "string", "default": "EUR"})
    prices.publish(servers, registry, {"bread": 250}, schema=more)
    assert prices.read(servers, registry) == {"apple": 30, "bread": 250}


def test_a_field_without_a_default_is_refused(servers: str, registry: str) -> None:
    prices.publish(servers, registry, {"apple": 30})
    with pytest.raises(SchemaRegistryError, match="409"):
        prices.publish(
            servers, registry, {"bread": 250}, schema=schema({"name": "currency", "type": "string"})
        )
    assert prices.read(servers, registry) == {"apple": 30}


@pytest.mark.parametrize("cents", ["30", None, [30]])
def test_a_price_that_is_no_int_is_not_published(
    kafka_broker: kafkapy.Broker, servers: str, registry: str, cents: object
) -> None:
    with pytest.raises((SerializationError, ValueError, TypeError)):
        prices.publish(servers, registry, {"apple": cents})  # type: ignore[dict-item]
    kafka_broker.topic(TOPIC).empty(within=0)
