"""The billing: exactly one bill for each order, whatever happens in between."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from aiokafka.errors import KafkaError, ProducerFenced
from shop.billing import GROUP, Billing
from shop.orders import Line, Order
from shop.topics import BILLS, ORDERS

import kafkapy
from tests.seed import CUSTOMERS, PRICES, SEEDED

TRUFFLES = Order("order-truffles", "ada", (Line("truffle", 1),))


@pytest.fixture
async def billing(servers: str) -> AsyncIterator[Billing]:
    async with Billing(servers, PRICES) as billing:
        yield billing


def billed(broker: kafkapy.Broker, count: int) -> Counter[str]:
    """How often each order is billed, as soon as so many bills are there.

    A commit is answered before every partition shows it.
    """
    return Counter(json.loads(each.value)["order"] for each in broker.topic(BILLS).records(count))


async def test_each_order_is_billed_once(kafka_broker: kafkapy.Broker, billing: Billing) -> None:
    await billing.bill(len(SEEDED))
    assert billed(kafka_broker, len(SEEDED)) == Counter(order.id for order in SEEDED)


async def test_the_sum_is_that_of_all_orders(billing: Billing) -> None:
    assert await billing.bill(len(SEEDED)) == sum(order.total(PRICES) for order in SEEDED)


@pytest.mark.parametrize("customer", CUSTOMERS[::2])
async def test_a_customer_pays_the_orders_in_turn(
    kafka_broker: kafkapy.Broker, billing: Billing, customer: str
) -> None:
    await billing.bill(len(SEEDED))
    written = kafka_broker.topic(BILLS).records(len(SEEDED))
    bills = [json.loads(each.value) for each in written if each.key == customer.encode()]
    orders = [order for order in SEEDED if order.customer == customer]
    assert bills == [{"order": order.id, "cents": order.total(PRICES)} for order in orders]


@pytest.mark.parametrize("step", [1, 8, 20])
async def test_orders_are_billed_in_steps_of_any_size(
    kafka_broker: kafkapy.Broker, billing: Billing, step: int
) -> None:
    for _ in range(len(SEEDED) // step):
        await billing.bill(step)
    assert billed(kafka_broker, len(SEEDED)) == Counter(order.id for order in SEEDED)
    kafka_broker.group(GROUP).caught_up()


async def test_the_transaction_is_committed(kafka_broker: kafkapy.Broker, billing: Billing) -> None:
    await billing.bill(5)
    kafka_broker.transaction("billing-1").committed()
    kafka_broker.topic(BILLS).records(5)


async def test_offsets_are_committed_with_the_bills(kafka_broker: kafkapy.Broker, billing: Billing) -> None:
    await billing.bill(len(SEEDED))
    kafka_broker.group(GROUP).caught_up(within=0)


async def test_what_is_no_order_is_passed_over(kafka_broker: kafkapy.Broker, servers: str) -> None:
    kafka_broker.produce(ORDERS, key="zoe", value="two apples")
    async with Billing(servers, PRICES) as billing:
        await billing.bill(len(SEEDED) + 1)
    assert billed(kafka_broker, len(SEEDED)) == Counter(order.id for order in SEEDED)


async def test_a_product_without_a_price_undoes_the_whole_step(
    kafka_broker: kafkapy.Broker, servers: str
) -> None:
    kafka_broker.produce(ORDERS, key="ada", value=TRUFFLES.encode())
    async with Billing(servers, PRICES) as billing:
        with pytest.raises(KeyError, match="truffle"):
            await billing.bill(len(SEEDED) + 1)
    kafka_broker.transaction("billing-1").aborted()
    kafka_broker.topic(BILLS).empty()


async def test_once_it_has_a_price_all_are_billed(kafka_broker: kafkapy.Broker, servers: str) -> None:
    kafka_broker.produce(ORDERS, key="ada", value=TRUFFLES.encode())
    async with Billing(servers, PRICES) as billing:
        with pytest.raises(KeyError):
            await billing.bill(len(SEEDED) + 1)
    async with Billing(servers, {**PRICES, "truffle": 9900}) as billing:
        await billing.bill(len(SEEDED) + 1)
    assert billed(kafka_broker, len(SEEDED) + 1) == Counter(
        [*(order.id for order in SEEDED), "order-truffles"]
    )


async def test_a_second_instance_bills_only_what_is_left(kafka_broker: kafkapy.Broker, servers: str) -> None:
    async with Billing(servers, PRICES) as billing:
        await billing.bill(25)
    async with Billing(servers, PRICES) as billing:
        await billing.bill(15)
    assert billed(kafka_broker, len(SEEDED)) == Counter(order.id for order in SEEDED)


async def test_an_instance_that_was_taken_over_bills_nothing_more(
    kafka_broker: kafkapy.Broker, servers: str
) -> None:
    async with Billing(servers, PRICES) as first:
        await first.bill(5)
        async with Billing(servers, PRICES, name="billing-1"):
            with pytest.raises(ProducerFenced):
                await first.bill(5)
    kafka_broker.topic(BILLS).records(5)


@pytest.mark.parametrize("code", ["CONCURRENT_TRANSACTIONS", "COORDINATOR_NOT_AVAILABLE"])
async def test_orders_are_billed_although_the_transaction_cannot_begin_at_first(
    kafka_broker: kafkapy.Broker, billing: Billing, code: str
) -> None:
    refusal = kafka_broker.faults.add_partitions_to_txn().error(code, times=2)
    await billing.bill(5)
    assert refusal.hits == 2
    kafka_broker.topic(BILLS).records(5)


async def test_a_commit_whose_answer_is_lost_bills_once(
    kafka_broker: kafkapy.Broker, billing: Billing
) -> None:
    lost = kafka_broker.faults.end_txn().disconnect(after_effect=True, times=1)
    await billing.bill(5)
    assert lost.hits == 1
    kafka_broker.transaction("billing-1").committed()
    kafka_broker.topic(BILLS).records(5)


async def test_a_refused_bill_is_no_bill(kafka_broker: kafkapy.Broker, servers: str) -> None:
    kafka_broker.faults.produce(topic=BILLS).error("TOPIC_AUTHORIZATION_FAILED")
    async with Billing(servers, PRICES) as billing:
        with pytest.raises(KafkaError):
            await billing.bill(5)
    kafka_broker.topic(BILLS).empty()
    assert kafka_broker.group(GROUP).lags() == {} or sum(kafka_broker.group(GROUP).lags().values()) == 40
