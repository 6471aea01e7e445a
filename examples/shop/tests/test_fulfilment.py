"""The fulfilment: a shipment for each order, and what is no order is set aside."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from shop.fulfilment import GROUP, Fulfilment
from shop.orders import Line, Order
from shop.topics import DEAD_LETTERS, ORDERS, SHIPMENTS

import kafkapy
from tests.seed import CUSTOMERS, SEEDED, line, written

NEW = Order("order-new", "ada", (Line("apple", 2), Line("bread", 1)))


class Running:
    """A fulfilment at work in the background."""

    def __init__(self, fulfilment: Fulfilment) -> None:
        self._fulfilment = fulfilment

    async def __aenter__(self) -> None:
        await self._fulfilment.__aenter__()
        self._task = asyncio.create_task(self._fulfilment.run())

    async def __aexit__(self, *error: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._fulfilment.__aexit__(None, None, None)


@pytest.fixture
async def running(servers: str) -> AsyncIterator[None]:
    async with Running(Fulfilment(servers)):
        yield


def shipped(broker: kafkapy.Broker) -> list[str]:
    """The orders that are shipped, sorted."""
    return sorted(json.loads(each.value)["order"] for each in broker.records(SHIPMENTS))


SEEDED_IDS = sorted(order.id for order in SEEDED)


async def test_all_orders_of_before_are_shipped(
    async_kafka_broker: kafkapy.AsyncBroker, kafka_broker: kafkapy.Broker, running: None
) -> None:
    await async_kafka_broker.group(GROUP).caught_up()
    assert shipped(kafka_broker) == SEEDED_IDS


@pytest.mark.parametrize("customer", CUSTOMERS)
async def test_the_shipments_of_a_customer_are_in_the_order_of_the_orders(
    async_kafka_broker: kafkapy.AsyncBroker, running: None, customer: str
) -> None:
    records = await async_kafka_broker.topic(SHIPMENTS).records(len(SEEDED))
    ids = [json.loads(each.value)["order"] for each in records if each.key == customer.encode()]
    assert ids == [order.id for order in SEEDED if order.customer == customer]


async def test_a_shipment_counts_the_items(async_kafka_broker: kafkapy.AsyncBroker, running: None) -> None:
    await async_kafka_broker.produce(ORDERS, key="ada", value=NEW.encode())
    records = await async_kafka_broker.topic(SHIPMENTS).records(len(SEEDED) + 1)
    shipments = {each["order"]: each["items"] for each in (json.loads(record.value) for record in records)}
    assert (shipments["order-new"], shipments["order-5"]) == (3, 2)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"two apples", b"not JSON"),
        (b"[]", b"not an object"),
        (written(id=None), b"no id"),
        (written(lines=[]), b"no lines"),
        (written(lines=[line(quantity=0)]), b"a quantity that is not 1 to 100"),
        (written(lines=[line(), line()]), b"a product twice"),
    ],
)
async def test_what_is_no_order_is_set_aside_with_the_reason(
    async_kafka_broker: kafkapy.AsyncBroker, running: None, value: bytes, reason: bytes
) -> None:
    wrong = await async_kafka_broker.produce(ORDERS, key="zoe", value=value)
    letter = (await async_kafka_broker.topic(DEAD_LETTERS).records(2))[1]
    assert (letter.key, letter.value) == (b"zoe", value)
    place = f"orders-{wrong.partition}@{wrong.offset}".encode()
    assert dict(letter.headers) == {"reason": reason, "place": place}


async def test_a_tombstone_is_set_aside_as_it_is(
    async_kafka_broker: kafkapy.AsyncBroker, running: None
) -> None:
    await async_kafka_broker.produce(ORDERS, key="zoe", value=None)
    assert (await async_kafka_broker.topic(DEAD_LETTERS).records(2))[1].value is None


async def test_orders_after_a_wrong_one_are_shipped(
    async_kafka_broker: kafkapy.AsyncBroker, kafka_broker: kafkapy.Broker, running: None
) -> None:
    await async_kafka_broker.produce(ORDERS, key="ada", value="two apples")
    await async_kafka_broker.produce(ORDERS, key="ada", value=NEW.encode())
    await async_kafka_broker.group(GROUP).caught_up()
    assert shipped(kafka_broker) == sorted([*SEEDED_IDS, "order-new"])


async def test_what_was_shipped_is_committed(
    async_kafka_broker: kafkapy.AsyncBroker, kafka_broker: kafkapy.Broker, running: None
) -> None:
    await async_kafka_broker.group(GROUP).caught_up()
    ends = dict.fromkeys(range(6), 0)
    for record in kafka_broker.records(ORDERS):
        ends[record.partition] = record.offset + 1
    busy = {number: end for number, end in ends.items() if end}
    for number, end in busy.items():
        assert await async_kafka_broker.group(GROUP).committed(ORDERS, number, end) == end


async def test_a_second_start_ships_only_what_is_new(
    async_kafka_broker: kafkapy.AsyncBroker, kafka_broker: kafkapy.Broker, servers: str
) -> None:
    async with Running(Fulfilment(servers)):
        await async_kafka_broker.group(GROUP).caught_up()
    await async_kafka_broker.produce(ORDERS, key="ada", value=NEW.encode())
    async with Running(Fulfilment(servers)):
        await async_kafka_broker.group(GROUP).caught_up()
    assert shipped(kafka_broker) == sorted([*SEEDED_IDS, "order-new"])


async def test_two_instances_share_the_work(
    async_kafka_broker: kafkapy.AsyncBroker, kafka_broker: kafkapy.Broker, servers: str, running: None
) -> None:
    await async_kafka_broker.group(GROUP).caught_up()
    async with Running(Fulfilment(servers, name="fulfilment-2")):
        members = await async_kafka_broker.group(GROUP).stable(members=2)
        assert {member.client_id for member in members} == {"fulfilment-1", "fulfilment-2"}
        await async_kafka_broker.produce(ORDERS, key="ada", value=NEW.encode())
        await async_kafka_broker.group(GROUP).caught_up()
    assert shipped(kafka_broker) == sorted([*SEEDED_IDS, "order-new"])


@pytest.mark.parametrize("code", ["NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR"])
async def test_orders_are_shipped_although_they_cannot_be_read_at_first(
    async_kafka_broker: kafkapy.AsyncBroker, kafka_broker: kafkapy.Broker, servers: str, code: str
) -> None:
    refusal = kafka_broker.faults.fetch(topic=ORDERS).error(code, times=2)
    async with Running(Fulfilment(servers)):
        await async_kafka_broker.group(GROUP).caught_up()
    assert refusal.hits == 2
    assert shipped(kafka_broker) == SEEDED_IDS


@pytest.mark.parametrize("code", ["COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"])
async def test_orders_are_shipped_although_the_coordinator_is_away_at_first(
    async_kafka_broker: kafkapy.AsyncBroker, kafka_broker: kafkapy.Broker, servers: str, code: str
) -> None:
    refusal = kafka_broker.faults.join_group().error(code, times=1)
    async with Running(Fulfilment(servers)):
        await async_kafka_broker.group(GROUP).caught_up()
    assert refusal.hits == 1
    assert shipped(kafka_broker) == SEEDED_IDS


async def test_each_order_is_shipped_once_although_shipments_are_refused_at_first(
    async_kafka_broker: kafkapy.AsyncBroker, kafka_broker: kafkapy.Broker, servers: str
) -> None:
    refusal = kafka_broker.faults.produce(topic=SHIPMENTS).error("NOT_LEADER_OR_FOLLOWER", times=5)
    async with Running(Fulfilment(servers)):
        await async_kafka_broker.group(GROUP).caught_up()
    assert refusal.hits == 5
    assert shipped(kafka_broker) == SEEDED_IDS
