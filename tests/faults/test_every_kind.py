"""Every kind of fault is met by librdkafka and aiokafka; by Java in interop."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import Consumer, Producer, TopicPartition

from kafkapy import Broker
from kafkapy.faults.connections import FaultyConnections
from kafkapy.faults.disks import FaultyDisks
from kafkapy.faults.faults import FaultyRequests
from tests.faults.every_kind import OUTAGES, out, switched_on, two_directories, unmet

_ROUNDS = 20
"""More than there are faults: each write meets one at least."""

Write = Callable[[Broker, str], None]
Read = Callable[[Broker, int], list[bytes | None]]


def written_by_librdkafka(broker: Broker, value: str) -> None:
    settings = {"enable.idempotence": True, "request.timeout.ms": 2000, "socket.timeout.ms": 2000}
    servers = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
    producer = Producer({**servers, **settings, "reconnect.backoff.max.ms": 200})
    producer.produce("orders", value, partition=0)
    assert producer.flush(60) == 0


def written_by_aiokafka(broker: Broker, value: str) -> None:
    async def write() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, enable_idempotence=True, request_timeout_ms=2000
        )
        # It tries an address once: its first connection may be the one that is refused or dropped.
        async with asyncio.timeout(60):
            while True:
                try:
                    await producer.start()
                    break
                except KafkaConnectionError:
                    await asyncio.sleep(0.05)
            await producer.send_and_wait("orders", value.encode(), partition=0)
            await producer.stop()

    asyncio.run(write())


def read_by_librdkafka(broker: Broker, count: int) -> list[bytes | None]:
    servers = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, "socket.timeout.ms": 2000}
    consumer = Consumer({**servers, "group.id": "reader", "reconnect.backoff.max.ms": 200})
    consumer.assign([TopicPartition("orders", 0, 0)])
    found: list[bytes | None] = []
    while len(found) < count:
        message = consumer.poll(60)
        assert message is not None
        if message.error() is None:
            found.append(message.value())
    consumer.close()
    return found


def read_by_aiokafka(broker: Broker, count: int) -> list[bytes | None]:
    async def read() -> list[bytes | None]:
        async with (
            asyncio.timeout(60),
            AIOKafkaConsumer(
                "orders",
                bootstrap_servers=broker.bootstrap_servers,
                auto_offset_reset="earliest",
                request_timeout_ms=2000,
            ) as consumer,
        ):
            return [(await consumer.getone()).value for _ in range(count)]

    return asyncio.run(read())


WRITES = {"librdkafka": written_by_librdkafka, "aiokafka": written_by_aiokafka}
READS = {"librdkafka": read_by_librdkafka, "aiokafka": read_by_aiokafka}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(config=two_directories(tmp_path)) as broker:
        broker.create_topics({"orders": 1})
        yield broker


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_records_of_a_producer_are_there_once(broker: Broker, write: Write) -> None:
    faults = switched_on(broker)
    written = list[str]()
    while unmet(faults):
        assert len(written) < _ROUNDS, unmet(faults)
        written.append(str(len(written)))
        write(broker, written[-1])
    assert [record.value for record in broker.records("orders")] == [each.encode() for each in written]


@pytest.mark.parametrize("how", OUTAGES)
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_producer_outlasts_an_outage(broker: Broker, write: Write, how: str) -> None:
    write(broker, "before")
    with out(broker, how):
        write(broker, "within")
    assert [record.value for record in broker.records("orders")] == [b"before", b"within"]


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_consumer_reads_all_of_it(broker: Broker, read: Read) -> None:
    for value in ("two apples", "a pear"):
        broker.produce("orders", value=value)
    fetch = broker.faults.fetch()
    faults = [
        broker.faults.fetch(topic="orders").error("NOT_LEADER_OR_FOLLOWER", times=1),
        fetch.delay(0.1, times=1),
        fetch.disconnect(times=1),
        fetch.no_answer(times=1),
        fetch.torn_answer(times=1),
        fetch.slow_bytes(1000, times=1),
    ]
    while unmet(faults):
        assert read(broker, 2) == [b"two apples", b"a pear"]


def test_the_list_has_every_kind_that_there_is(broker: Broker) -> None:
    vocabulary: dict[str, Any] = {
        "produce": FaultyRequests,
        "connections": FaultyConnections,
        "disk": FaultyDisks,
    }
    there_are = {
        (noun, name)
        for noun, kinds in vocabulary.items()
        for name, method in inspect.getmembers(kinds, inspect.isfunction)
        if not name.startswith("_") and "how_often" in inspect.signature(method).parameters
    }
    tried = {
        (found[1], found[2])
        for fault in switched_on(broker)
        if (found := re.search(r"(produce|connections|disk)\(.*\)\.(\w+)\(", str(fault)))
    }
    # One that fails is in the outages.
    assert tried | {("disk", "fail")} == there_are
