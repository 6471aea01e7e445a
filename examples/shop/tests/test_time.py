"""What becomes of orders, offsets and transactions with time; the clock is advanced, nobody waits."""

from __future__ import annotations

from datetime import timedelta

import pytest
from aiokafka import AIOKafkaProducer
from shop import reports
from shop.billing import GROUP, Billing
from shop.topics import BILLS, ORDERS, STOCK

import kafkapy
from tests.seed import LEVELS, PRICES, SEEDED

pytestmark = pytest.mark.kafka(clock="manual")


@pytest.mark.parametrize(("days", "left"), [(1, 40), (6, 40), (8, 0), (30, 0)])
def test_orders_are_kept_for_a_week(kafka_broker: kafkapy.Broker, days: int, left: int) -> None:
    kafka_broker.clock.advance(days=days)
    assert len(kafka_broker.records(ORDERS)) == left


def test_stock_is_kept_for_ever(kafka_broker: kafkapy.Broker) -> None:
    kafka_broker.clock.advance(days=365)
    assert len(kafka_broker.records(STOCK)) == len(LEVELS)


@pytest.mark.kafka(config={"log.retention.hours": 1})
def test_orders_may_be_kept_for_an_hour(kafka_broker: kafkapy.Broker, servers: str) -> None:
    kafka_broker.clock.advance(hours=2)
    assert reports.sold(servers).total() == 0


async def test_a_bill_that_was_never_committed_is_aborted(kafka_broker: kafkapy.Broker, servers: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id="billing-1")
    await producer.start()
    await producer.begin_transaction()
    await producer.send_and_wait(BILLS, b"a bill")
    kafka_broker.clock.advance(minutes=2)
    kafka_broker.transaction("billing-1").aborted(within=0)
    await producer.stop()
    kafka_broker.topic(BILLS).empty(within=0)


@pytest.mark.kafka(config={"log.message.timestamp.type": "LogAppendTime"})
async def test_what_was_billed_is_known_after_six_days(kafka_broker: kafkapy.Broker, servers: str) -> None:
    async with Billing(servers, PRICES) as billing:
        await billing.bill(len(SEEDED))
    kafka_broker.clock.advance(days=6)
    assert set(kafka_broker.group(GROUP).lags().values()) == {0}


@pytest.mark.kafka(config={"log.retention.ms": -1})
async def test_offsets_of_a_group_that_was_away_for_eight_days_are_forgotten(
    kafka_broker: kafkapy.Broker, servers: str
) -> None:
    async with Billing(servers, PRICES) as billing:
        await billing.bill(len(SEEDED))
    kafka_broker.clock.advance(days=8)
    assert kafka_broker.group(GROUP).lags() == {}


def test_time_ends_where_it_was_advanced_to(kafka_broker: kafkapy.Broker) -> None:
    before = kafka_broker.clock.now()
    kafka_broker.clock.advance(days=2, hours=3)
    assert timedelta(hours=51) <= kafka_broker.clock.now() - before < timedelta(hours=51.1)
