"""Trying something out: on a second broker, or with a way back."""

from __future__ import annotations

from shop import reports
from shop.billing import Billing
from shop.topics import BILLS, ORDERS

import kafkapy
from tests.seed import PRICES, SEEDED


async def test_higher_prices_are_tried_on_a_fork(kafka_broker: kafkapy.Broker) -> None:
    dearer = {product: 2 * cents for product, cents in PRICES.items()}
    with kafka_broker.fork() as other:
        async with Billing(other.bootstrap_servers, dearer) as billing:
            cents = await billing.bill(len(SEEDED))
        assert len(other.records(BILLS)) == len(SEEDED)
    assert cents == 2 * sum(order.total(PRICES) for order in SEEDED)
    kafka_broker.topic(BILLS).empty(within=0)


def test_a_mistake_is_undone(kafka_broker: kafkapy.Broker, servers: str) -> None:
    with kafka_broker.snapshot() as before:
        kafka_broker.produce(ORDERS, key="ada", value="two apples")
        assert reports.refused(servers).total() == 1
        kafka_broker.reset(before)
    assert reports.refused(servers).total() == 0
    assert len(kafka_broker.records(ORDERS)) == len(SEEDED)


def test_a_reset_without_a_snapshot_is_the_seed(kafka_broker: kafkapy.Broker) -> None:
    kafka_broker.produce(BILLS, value="a bill")
    kafka_broker.reset()
    kafka_broker.topic(BILLS).empty(within=0)
    assert len(kafka_broker.records(ORDERS)) == len(SEEDED)


async def test_two_forks_of_a_moment_do_not_see_each_other(kafka_broker: kafkapy.Broker) -> None:
    with (
        kafka_broker.snapshot() as moment,
        kafka_broker.fork(moment) as first,
        kafka_broker.fork(moment) as second,
    ):
        first.produce(BILLS, value="a bill")
        second.topic(BILLS).empty(within=0)
        assert len(second.records(ORDERS)) == len(SEEDED)
