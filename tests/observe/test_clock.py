"""What is due happens before `advance` returns, and clients live in real time."""

from __future__ import annotations

import asyncio
import datetime
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import aiokafka
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, ShareConsumer, TopicPartition

import kafkapy
from kafkapy.broker.core import BrokerCore
from kafkapy.inprocess import AsyncBroker, Broker
from kafkapy.observe.waiting import NotSeenError

manual = pytest.mark.kafka(clock="manual")


def servers(broker: Broker) -> dict[str, Any]:
    return {"bootstrap.servers": broker.bootstrap_servers}


def read_one(broker: Broker, group: str) -> None:
    """Join a group, read a record of orders, commit, and leave."""
    consumer = Consumer({**servers(broker), "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    assert len(consumer.consume(1, timeout=10)) == 1
    consumer.commit(asynchronous=False)
    consumer.close()


def of_core(broker: Broker, look: Callable[[BrokerCore], Any]) -> Any:
    async def looked(core: BrokerCore) -> Any:
        return look(core)

    return broker.call(looked)


# --- the clock itself ---------------------------------------------------------------------------------------


def test_the_machines_clock_is_not_advanced(kafka_broker: Broker) -> None:
    with pytest.raises(RuntimeError, match='make it with clock="manual"'):
        _ = kafka_broker.clock


def test_a_clock_of_another_name_is_refused() -> None:
    with pytest.raises(ValueError, match="clock='Manual': expected one of 'real', 'manual'"):
        Broker(clock="Manual")  # type: ignore[arg-type]


@manual
def test_it_shows_real_time_and_what_it_was_advanced(kafka_broker: Broker) -> None:
    before = datetime.datetime.now(datetime.UTC)
    kafka_broker.clock.advance(days=7, hours=1)
    after = datetime.datetime.now(datetime.UTC)
    ahead = datetime.timedelta(days=7, hours=1, milliseconds=-1)
    assert before + ahead <= kafka_broker.clock.now() <= after + ahead + datetime.timedelta(seconds=1)


@manual
@pytest.mark.parametrize("seconds", [0, -1])
def test_it_does_not_go_back(kafka_broker: Broker, seconds: int) -> None:
    with pytest.raises(ValueError, match="expected more than 0"):
        kafka_broker.clock.advance(seconds=seconds)


@manual
def test_records_have_its_time(kafka_broker: Broker) -> None:
    kafka_broker.clock.advance(days=1)
    record = kafka_broker.produce("orders", value="two apples")
    assert record.timestamp >= (time.time() + 86_400 - 1) * 1000


@manual
def test_a_long_poll_lasts_as_long_as_by_any_clock(kafka_broker: Broker) -> None:
    kafka_broker.create_topics({"orders": 1})
    consumer = Consumer({**servers(kafka_broker), "group.id": "billing", "fetch.wait.max.ms": 500})
    consumer.assign([TopicPartition("orders", 0, 0)])
    kafka_broker.clock.advance(days=1)
    assert consumer.poll(0.3) is None
    kafka_broker.produce("orders", value="two apples")
    record = consumer.poll(10)
    assert record is not None
    assert record.value() == b"two apples"
    consumer.close()


# --- what expires -------------------------------------------------------------------------------------------

MEMBER = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "billing", "group.protocol": sys.argv[2]})
consumer.subscribe(["orders"])
while True:
    consumer.poll(1)
"""


@manual
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_killed_member_is_gone_after_its_session(kafka_broker: Broker, protocol: str) -> None:
    kafka_broker.create_topics({"orders": 1})
    member = subprocess.Popen([sys.executable, "-c", MEMBER, kafka_broker.bootstrap_servers, protocol])
    try:
        kafka_broker.group("billing").stable(members=1, within=30)
    finally:
        member.kill()
        member.wait()
    kafka_broker.clock.advance(seconds=40)
    kafka_broker.group("billing").stable(members=1, within=0)
    kafka_broker.clock.advance(seconds=10)
    with pytest.raises(NotSeenError, match="it is Empty, with 0 members"):
        kafka_broker.group("billing").stable(members=1, within=0)


@manual
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_that_stay_are_heard_from_all_the_while(kafka_broker: Broker, protocol: str) -> None:
    kafka_broker.produce("orders", value="two apples")
    settings = {**servers(kafka_broker), "group.id": "billing", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "group.protocol": protocol})
    consumer.subscribe(["orders"])
    assert len(consumer.consume(1, timeout=10)) == 1
    consumer.commit(asynchronous=False)
    kafka_broker.clock.advance(days=8, members_stay=True)
    kafka_broker.group("billing").stable(members=1, within=0)
    kafka_broker.group("billing").committed("orders", 0, 1, within=0)
    consumer.close()


@manual
def test_retention_deletes_what_is_too_old_by_this_clock(kafka_broker: Broker) -> None:
    kafka_broker.produce("orders", value="two apples")
    kafka_broker.clock.advance(days=6, hours=23)
    assert len(kafka_broker.records("orders")) == 1
    kafka_broker.clock.advance(hours=2)
    assert kafka_broker.records("orders") == []
    kafka_broker.produce("orders", value="a pear")
    kafka_broker.clock.advance(hours=2)
    assert len(kafka_broker.records("orders")) == 1


@manual
def test_a_transaction_that_takes_too_long_is_aborted(kafka_broker: Broker) -> None:
    producer = Producer(
        {**servers(kafka_broker), "transactional.id": "billing-1", "transaction.timeout.ms": 60_000}
    )
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("orders", value="two apples")
    producer.flush(10)
    kafka_broker.clock.advance(seconds=50)
    with pytest.raises(NotSeenError):
        kafka_broker.transaction("billing-1").aborted(within=0)
    kafka_broker.clock.advance(seconds=25)
    kafka_broker.transaction("billing-1").aborted(within=0)
    assert kafka_broker.records("orders") == []
    with pytest.raises(KafkaException):
        producer.commit_transaction(10)


@manual
def test_an_unused_transactional_id_expires(kafka_broker: Broker) -> None:
    producer = Producer({**servers(kafka_broker), "transactional.id": "billing-1"})
    producer.init_transactions(10)

    def ids() -> list[str]:
        listed = of_core(kafka_broker, lambda core: list(core.transactions.listed()))
        return [each.transactional_id for each in listed]

    kafka_broker.clock.advance(days=6)
    assert ids() == ["billing-1"]
    kafka_broker.clock.advance(days=2)
    assert ids() == []


@manual
def test_offsets_expire_a_week_after_their_group_is_empty(kafka_broker: Broker) -> None:
    kafka_broker.produce("orders", value="two apples")
    read_one(kafka_broker, "billing")
    kafka_broker.clock.advance(days=6, hours=23)
    kafka_broker.group("billing").committed("orders", 0, 1, within=0)
    kafka_broker.clock.advance(hours=2)
    with pytest.raises(NotSeenError):
        kafka_broker.group("billing").committed("orders", 0, 1, within=0)


@manual
def test_an_idle_producer_is_forgotten(kafka_broker: Broker) -> None:
    producer = Producer({**servers(kafka_broker), "enable.idempotence": True})
    producer.produce("orders", value="two apples")
    producer.flush(10)

    def count() -> int:
        producers = of_core(kafka_broker, lambda core: core.replicas.partition("orders", 0).log.producers)
        return len(producers)

    assert count() == 1
    kafka_broker.clock.advance(hours=23)
    assert count() == 1
    kafka_broker.clock.advance(hours=2)
    assert count() == 0


@manual
def test_a_lock_of_a_share_group_ends(kafka_broker: Broker) -> None:
    kafka_broker.create_topics({"orders": 1})

    def consumer() -> ShareConsumer:
        explicit = {"group.id": "billing", "share.acknowledgement.mode": "explicit"}
        made = ShareConsumer({**servers(kafka_broker), **explicit})
        made.subscribe(["orders"])
        return made

    def taken(by: ShareConsumer) -> list[bytes | None]:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if messages := [each for each in by.poll(0.2) if each.error() is None]:
                return [each.value() for each in messages]
        return []

    first = consumer()
    first.poll(1)
    kafka_broker.group("billing").stable(members=1)
    end = time.monotonic() + 20
    while not of_core(kafka_broker, lambda core: len(core.shares.led)):
        assert time.monotonic() < end
        first.poll(0.1)
    kafka_broker.produce("orders", value="two apples")
    assert taken(first) == [b"two apples"]
    kafka_broker.clock.advance(seconds=31, members_stay=True)
    (led,) = of_core(kafka_broker, lambda core: core.shares.led.partitions())
    assert led.lock_timeouts == 1
    second = consumer()
    assert taken(second) == [b"two apples"]
    for each in (first, second):
        each.close()


COMPACTED = {
    "log.cleanup.policy": "compact",
    "log.roll.ms": 60_000,
    "log.cleaner.min.cleanable.ratio": 0.01,
    "log.cleaner.delete.retention.ms": 86_400_000,
}


@pytest.mark.kafka(clock="manual", config=COMPACTED)
def test_a_tombstone_goes_after_its_retention(kafka_broker: Broker) -> None:
    def values() -> list[bytes | None]:
        return [record.value for record in kafka_broker.records("orders")]

    kafka_broker.produce("orders", key="17", value="two apples")
    kafka_broker.produce("orders", key="17", value=None)
    kafka_broker.clock.advance(minutes=2)
    kafka_broker.produce("orders", key="18", value="a pear")  # rolls the segment
    kafka_broker.clock.advance(minutes=2)
    assert values() == [None, b"a pear"]
    kafka_broker.clock.advance(days=2)
    kafka_broker.produce("orders", key="19", value="plums")
    kafka_broker.clock.advance(minutes=2)
    assert values() == [b"a pear", b"plums"]


# --- others -------------------------------------------------------------------------------------------------


def test_a_stopped_broker_finds_a_later_time_at_its_start() -> None:
    with Broker(clock="manual") as broker:
        broker.produce("orders", value="two apples")
        broker.stop()
        broker.clock.advance(days=8)
        broker.start()
        assert len(broker.records("orders")) == 1
        broker.clock.advance(minutes=6)
        assert broker.records("orders") == []


def test_an_asynchronous_broker_is_awaited() -> None:
    async def expired() -> None:
        async with AsyncBroker(clock="manual") as broker:
            consumer = aiokafka.AIOKafkaConsumer(
                "orders", bootstrap_servers=broker.bootstrap_servers, group_id="billing"
            )
            await broker.create_topics({"orders": 1})
            await consumer.start()
            await broker.group("billing").stable(members=1)
            await broker.clock.advance(minutes=1)
            await broker.group("billing").stable(members=1)  # it has joined again
            await consumer.stop()

    asyncio.run(expired())


def test_the_brokers_of_a_cluster_are_advanced_together() -> None:
    with kafkapy.Cluster(brokers=3, clock="manual") as cluster:
        settings = {"bootstrap.servers": cluster.bootstrap_servers}
        producer = Producer({**settings, "transactional.id": "billing-1", "transaction.timeout.ms": 60_000})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("orders", value="two apples")
        producer.flush(30)
        cluster.clock.advance(minutes=2)
        with pytest.raises(KafkaException):
            producer.commit_transaction(30)
        assert all(cluster[each].clock.now() > datetime.datetime.now(datetime.UTC) for each in cluster)
        producer = Producer(settings)
        producer.produce("orders", value="a pear")
        assert producer.flush(30) == 0
