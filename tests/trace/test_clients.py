"""Stock clients work through the proxy, stay on it, and each request of theirs is told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from kafkapy import Broker
from kafkapy.cluster import Cluster
from kafkapy.trace.lines import Filters
from tests.trace.relaying import Traced, relaying


@pytest.fixture
def traced() -> Iterator[Traced]:
    with Broker() as broker, relaying(broker.bootstrap_servers) as traced:
        yield traced


def test_kafka_python_writes_and_reads_in_a_group(traced: Traced) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    producer = KafkaProducer(bootstrap_servers=traced.address, client_id="shop")
    producer.send("orders", b"two apples").get(30)
    producer.close()
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=traced.address,
        group_id="readers",
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
    )
    assert next(consumer).value == b"two apples"
    consumer.close()
    lines = traced.lines()
    assert "shop Produce v" in lines
    assert "orders-0 (1 record) -> orders-0@0" in lines
    assert "JoinGroup" in lines
    assert "group_id=readers" in lines
    assert "OffsetCommit" in lines


def test_confluent_kafka_writes_and_reads_in_a_group(traced: Traced) -> None:
    from confluent_kafka import Consumer, Producer

    producer = Producer({"bootstrap.servers": traced.address, "client.id": "shop"})
    producer.produce("orders", b"two apples")
    assert producer.flush(30) == 0
    settings = {"bootstrap.servers": traced.address, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe(["orders"])
    try:
        messages = consumer.consume(1, 30)
        assert [message.value() for message in messages] == [b"two apples"]
    finally:
        consumer.close()
    assert "-> orders-0@0" in traced.lines(Filters(frozenset({"produce"})))
    assert "orders-0 (1 record)" in traced.lines(Filters(frozenset({"fetch"}), topics=("ord*",)))


def test_aiokafka_writes_and_reads_in_a_group(traced: Traced) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def run() -> None:
        async with AIOKafkaProducer(bootstrap_servers=traced.address) as producer:
            await producer.send_and_wait("orders", b"two apples")
        async with AIOKafkaConsumer(
            "orders", bootstrap_servers=traced.address, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            record = await asyncio.wait_for(consumer.getone(), 30)
            assert record.value == b"two apples"

    asyncio.run(run())
    assert "group_id=g" in traced.lines(Filters(frozenset({"syncgroup"})))


def test_clients_reach_all_brokers_of_a_cluster_through_the_proxy() -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    with Cluster(2) as cluster, relaying(cluster.bootstrap_servers.split(",")[0]) as traced:
        admin = AdminClient({"bootstrap.servers": traced.address})
        admin.create_topics([NewTopic("wide", 4, 1)])["wide"].result(30)
        told = {f"{broker.host}:{broker.port}" for broker in admin.list_topics().brokers.values()}
        assert len(told) == 2
        assert told.isdisjoint(cluster.bootstrap_servers.split(","))
        producer = Producer({"bootstrap.servers": traced.address})
        for partition in range(4):
            producer.produce("wide", b"x", partition=partition)
        assert producer.flush(30) == 0
        leaders = {exchange.broker for exchange in list(traced.exchanges) if exchange.api == "Produce"}
        assert leaders == set(cluster.bootstrap_servers.split(","))


def test_a_produce_without_acks_is_told_though_no_answer_comes(traced: Traced) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=traced.address, acks=0, enable_idempotence=False)
    producer.send("orders", b"two apples")
    producer.flush(30)
    traced.until(lambda: "acks=0 orders-0 (1 record)" in traced.lines())
    producer.close()
