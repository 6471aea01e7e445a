"""What each test finds: the same data, whatever other tests have done to theirs."""

from __future__ import annotations

import pytest
from shop.orders import decode
from shop.topics import BILLS, CANCELLATIONS, DEAD_LETTERS, ORDERS, PARTITIONS, SHIPMENTS, STOCK

import kafkapy
from tests.seed import CUSTOMERS, LEVELS, SEEDED


@pytest.mark.parametrize("customer", CUSTOMERS)
def test_the_orders_of_a_customer_are_in_one_partition_as_they_were_placed(
    kafka_broker: kafkapy.Broker, customer: str
) -> None:
    records = [each for each in kafka_broker.records(ORDERS) if each.key == customer.encode()]
    assert len({record.partition for record in records}) == 1
    placed = [each for each in SEEDED if each.customer == customer]
    assert [decode(record.value) for record in records] == placed


@pytest.mark.parametrize("topic", [CANCELLATIONS, SHIPMENTS, BILLS])
def test_a_topic_is_empty_until_a_service_writes_to_it(kafka_broker: kafkapy.Broker, topic: str) -> None:
    kafka_broker.topic(topic).empty(within=0)


@pytest.mark.parametrize("turn", range(4))
def test_nobody_sees_the_orders_of_another_test(kafka_broker: kafkapy.Broker, turn: int) -> None:
    kafka_broker.produce(ORDERS, key="ada", value=f"of turn {turn}")
    assert len(kafka_broker.records(ORDERS)) == len(SEEDED) + 1


@pytest.mark.parametrize("product", LEVELS)
def test_each_product_has_one_level(kafka_broker: kafkapy.Broker, product: str) -> None:
    levels = [each.value for each in kafka_broker.records(STOCK) if each.key == product.encode()]
    assert levels == [str(LEVELS[product]).encode()]


def test_there_is_one_old_dead_letter_with_its_reason(kafka_broker: kafkapy.Broker) -> None:
    (letter,) = kafka_broker.topic(DEAD_LETTERS).records(1)
    assert dict(letter.headers) == {"reason": b"not JSON"}


@pytest.mark.kafka(topics={"complaints": 2})
def test_a_mark_adds_a_topic_to_what_is_there(kafka_broker: kafkapy.Broker) -> None:
    kafka_broker.topic("complaints").empty(within=0)
    assert len(kafka_broker.records(ORDERS)) == len(SEEDED)


def test_a_topic_that_nobody_created_is_refused(kafka_broker: kafkapy.Broker) -> None:
    assert "odrers" not in PARTITIONS
    with pytest.raises(ValueError, match="odrers"):
        kafka_broker.produce("odrers", value="a misspelt topic")
