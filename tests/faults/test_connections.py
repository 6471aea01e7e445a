"""Connections that are refused, dropped or slow, as stock clients see it."""

from __future__ import annotations

import asyncio
import socket
import time

import kafka
import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

from kafkapy.inprocess import AsyncBroker, Broker

orders = pytest.mark.kafka(topics={"orders": 1})


def write(broker: Broker, **settings: object) -> None:
    """Write a record, by librdkafka."""
    servers = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
    writer = Producer({**servers, "reconnect.backoff.max.ms": 200, **settings})
    writer.produce("orders", "two apples")
    assert writer.flush(20) == 0


@orders
def test_a_client_connects_again_after_it_was_refused(kafka_broker: Broker) -> None:
    refusal = kafka_broker.faults.connections().refuse(times=3)
    write(kafka_broker)
    assert (refusal.hits, len(kafka_broker.records("orders"))) == (3, 1)


@orders
def test_a_refused_connection_is_reset(kafka_broker: Broker) -> None:
    host, port = kafka_broker.bootstrap_servers.split(":")
    with kafka_broker.faults.connections(address="127.0.0.1", listener="PLAINTEXT").refuse() as refusal:
        with socket.create_connection((host, int(port))) as connection, pytest.raises(ConnectionResetError):
            connection.recv(1)
        assert refusal.hits == 1
    write(kafka_broker)


@orders
def test_other_addresses_and_listeners_are_let_in(kafka_broker: Broker) -> None:
    faults = kafka_broker.faults
    others = [faults.connections(address="10.0.0.1").refuse(), faults.connections(listener="INNER").drop()]
    write(kafka_broker)
    assert [each.hits for each in others] == [0, 0]


@orders
def test_a_connection_of_a_client_is_dropped(kafka_broker: Broker) -> None:
    drop = kafka_broker.faults.connections(client_id="till").drop(times=2)
    write(kafka_broker, **{"client.id": "office"})
    assert drop.hits == 0
    write(kafka_broker, **{"client.id": "till"})
    assert (drop.hits, len(kafka_broker.records("orders"))) == (2, 2)


@orders
def test_an_open_connection_is_dropped_at_its_next_request(kafka_broker: Broker) -> None:
    writer = kafka.KafkaProducer(bootstrap_servers=kafka_broker.bootstrap_servers, client_id="till")
    writer.send("orders", b"two apples").get(10)
    drop = kafka_broker.faults.connections(client_id="till").drop(times=1)
    writer.send("orders", b"a pear").get(20)
    writer.close()
    assert (drop.hits, len(kafka_broker.records("orders"))) == (1, 2)


@orders
def test_each_request_of_a_delayed_connection_waits(kafka_broker: Broker) -> None:
    delay = kafka_broker.faults.connections().delay(0.3)
    began = time.monotonic()
    write(kafka_broker)
    assert time.monotonic() - began >= 0.6  # the versions and the record, at least
    assert delay.hits <= 3  # it counts connections, and not their requests


def test_aiokafka_waits_for_slow_answers() -> None:
    async def written() -> int:
        async with AsyncBroker() as broker:
            await broker.create_topics({"orders": 1})
            slow = broker.faults.connections().slow_bytes(2000)
            async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
                await producer.send_and_wait("orders", b"two apples")
            assert len(await broker.records("orders")) == 1
            return slow.hits

    assert asyncio.run(written()) >= 1


def test_a_new_connection_is_not_known_by_its_client_id(kafka_broker: Broker) -> None:
    with pytest.raises(ValueError, match="a new connection has no client id yet"):
        kafka_broker.faults.connections(client_id="till").refuse()


@orders
def test_a_fault_of_an_api_may_be_of_one_address(kafka_broker: Broker) -> None:
    faults = kafka_broker.faults
    here = faults.produce(address="127.0.0.1").error("NOT_LEADER_OR_FOLLOWER", times=1)
    elsewhere = faults.produce(address="10.0.0.1").error("NOT_LEADER_OR_FOLLOWER")
    write(kafka_broker)
    assert (here.hits, elsewhere.hits) == (1, 0)


@orders
def test_a_paused_broker_answers_when_it_goes_on(kafka_broker: Broker) -> None:
    write(kafka_broker)
    kafka_broker.pause()
    with pytest.raises(RuntimeError, match="the broker is paused"):
        kafka_broker.records("orders")
    writer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers, "log_level": 0})
    writer.produce("orders", "a pear")
    assert writer.flush(1) == 1
    kafka_broker.resume()
    assert writer.flush(20) == 0
    assert len(kafka_broker.records("orders")) == 2


def test_a_paused_broker_can_be_stopped() -> None:
    with Broker() as broker:
        broker.pause()
        broker.stop()
        broker.start()
        broker.produce("orders", value="two apples")
