"""The reports: what was ordered until now."""

from __future__ import annotations

from collections import Counter

import pytest
from aiokafka import AIOKafkaProducer
from shop import reports
from shop.intake import Intake
from shop.orders import Line, Order
from shop.reading import read_all
from shop.topics import BILLS, ORDERS

import kafkapy
from tests.seed import CUSTOMERS, PRICES, SEEDED, written

NEW = Order("order-new", "ada", (Line("cheese", 3),))


@pytest.mark.parametrize("customer", CUSTOMERS)
def test_the_history_of_a_customer_is_in_the_order_of_the_orders(servers: str, customer: str) -> None:
    assert reports.history(servers, customer) == [each.id for each in SEEDED if each.customer == customer]


def test_who_has_ordered_nothing_has_no_history(servers: str) -> None:
    assert reports.history(servers, "zoe") == []


def test_revenue_is_that_of_all_customers(servers: str) -> None:
    revenue = reports.revenue(servers, PRICES)
    assert revenue.total() == sum(order.total(PRICES) for order in SEEDED)
    assert revenue["eve"] == 5 * 2 * 700 + 30 * sum(1 + n % 5 for n in range(4, 40, 8))


@pytest.mark.parametrize(("product", "items"), [("apple", 120), ("bread", 20), ("cheese", 10), ("dates", 0)])
def test_items_are_counted_by_product(servers: str, product: str, items: int) -> None:
    assert reports.sold(servers)[product] == items


async def test_a_new_order_is_in_the_next_report(servers: str, intake: Intake) -> None:
    before = reports.revenue(servers, PRICES)
    await intake.place(NEW)
    assert reports.revenue(servers, PRICES) - before == Counter(ada=2100)


async def test_a_cancelled_order_is_in_no_revenue(servers: str, intake: Intake) -> None:
    before = reports.revenue(servers, PRICES)
    await intake.cancel(SEEDED[4])
    assert before - reports.revenue(servers, PRICES) == Counter(eve=SEEDED[4].total(PRICES))


async def test_a_cancelled_order_stays_in_the_history(servers: str, intake: Intake) -> None:
    await intake.cancel(SEEDED[4])
    assert "order-4" in reports.history(servers, "eve")


def test_what_is_no_order_is_counted_by_its_reason(kafka_broker: kafkapy.Broker, servers: str) -> None:
    for value in (b"two apples", b"three", written(lines=[])):
        kafka_broker.produce(ORDERS, key="zoe", value=value)
    assert reports.refused(servers) == {"not JSON": 2, "no lines": 1}


@pytest.mark.parametrize(("ends", "values"), [("commit", [b"a bill"]), ("abort", [])])
async def test_bills_of_aborted_transactions_are_not_read(
    servers: str, ends: str, values: list[bytes]
) -> None:
    async with AIOKafkaProducer(bootstrap_servers=servers, transactional_id="billing-9") as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(BILLS, b"a bill")
        await (producer.commit_transaction() if ends == "commit" else producer.abort_transaction())
    assert [record.value() for record in read_all(servers, BILLS)] == values
