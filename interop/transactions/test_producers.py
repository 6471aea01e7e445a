"""Transactions of each client.

What is committed is read, once and in order, and nothing else.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition
from kafka.structs import OffsetAndMetadata

from interop.conftest import MakeTopic
from interop.support.kafka_jars import RELEASE, program_command
from interop.support.maven import JarsUnavailableError
from interop.support.waiting import wait_until

PARTITIONS, TRANSACTIONS = 3, 7
ABORTED = range(2, TRANSACTIONS, 3)
HERE = Path(__file__).parent


def read(bootstrap_servers: str, topic: str, isolation: str = "read_committed") -> list[list[str]]:
    """The values of each partition up to its end, as this isolation level has it."""
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": "reader", "isolation.level": isolation}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: list[list[str]] = [[] for _ in range(PARTITIONS)]
    ended: set[int] = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(30)
        assert message is not None, f"no end of the partitions; found {found}"
        partition = message.partition()
        if message.error() is not None:
            ended.add(partition)
        else:
            found[partition].append(message.value().decode())
    consumer.close()
    return found


def committed_offset(bootstrap_servers: str, topic: str, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group})
    (found,) = consumer.committed([TopicPartition(topic, 0)], 30)
    consumer.close()
    return int(found.offset)


def check(bootstrap_servers: str, topic: str, group: str) -> None:
    """What is there after transactions 0 to TRANSACTIONS - 1, of which ABORTED are aborted."""
    kept = [n for n in range(TRANSACTIONS) if n not in ABORTED]
    expected = [[f"{n}-{partition}" for n in kept] for partition in range(PARTITIONS)]
    # The markers of the last transaction follow its answer.
    wait_until(lambda: read(bootstrap_servers, topic) == expected)
    uncommitted = read(bootstrap_servers, topic, "read_uncommitted")
    aborted = {f"{n}-0" for n in ABORTED} & set(uncommitted[0])
    assert aborted, "nothing was aborted"
    wait_until(lambda: committed_offset(bootstrap_servers, topic, group) == kept[-1])


@pytest.mark.capability("transactions")
def test_confluent_kafka(bootstrap_servers: str, make_topic: MakeTopic, name: str) -> None:
    topic = make_topic(PARTITIONS)
    settings = {"bootstrap.servers": bootstrap_servers, "transactional.id": topic}
    zombie, producer = Producer(settings), Producer(settings)
    zombie.init_transactions(30)
    zombie.begin_transaction()
    zombie.produce(topic, "zombie", partition=0)
    zombie.flush(30)
    producer.init_transactions(30)
    with pytest.raises(KafkaException):
        zombie.commit_transaction(30)
    group = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": name})
    for n in range(TRANSACTIONS):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(topic, f"{n}-{partition}", partition=partition)
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, n)], group.consumer_group_metadata(), 30
        )
        if n in ABORTED:
            producer.flush(30)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    group.close()
    check(bootstrap_servers, topic, name)


@pytest.mark.capability("transactions")
async def test_aiokafka(bootstrap_servers: str, make_topic: MakeTopic, name: str) -> None:
    topic = await asyncio.to_thread(make_topic, PARTITIONS)
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id=topic)
    await producer.start()
    for n in range(TRANSACTIONS):
        await producer.begin_transaction()
        for partition in range(PARTITIONS):
            await producer.send_and_wait(topic, f"{n}-{partition}".encode(), partition=partition)
        await producer.send_offsets_to_transaction({AioTopicPartition(topic, 0): n}, name)
        await (producer.abort_transaction() if n in ABORTED else producer.commit_transaction())
    await producer.stop()
    await asyncio.to_thread(check, bootstrap_servers, topic, name)


@pytest.mark.capability("transactions")
def test_kafka_python(bootstrap_servers: str, make_topic: MakeTopic, name: str) -> None:
    topic = make_topic(PARTITIONS)
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id=topic)
    producer.init_transactions()
    for n in range(TRANSACTIONS):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.send(topic, f"{n}-{partition}".encode(), partition=partition)
        offsets = {KafkaTopicPartition(topic, 0): OffsetAndMetadata(n, "", -1)}
        producer.send_offsets_to_transaction(offsets, name)
        if n in ABORTED:
            producer.flush(30)
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()
    check(bootstrap_servers, topic, name)


@pytest.mark.jvm
@pytest.mark.capability("transactions")
@pytest.mark.parametrize("release", ["4.3.1", "3.9.1"])
def test_java(
    bootstrap_servers: str, make_topic: MakeTopic, name: str, release: str, java: Callable[..., list[str]]
) -> None:
    topic = make_topic(PARTITIONS)
    arguments = [bootstrap_servers, topic, str(PARTITIONS), name, str(TRANSACTIONS)]
    run = subprocess.run(
        [*java("Transactions", release), *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.stdout.split() == ["fenced", "done"], run.stdout + run.stderr
    check(bootstrap_servers, topic, name)


@pytest.mark.jvm
@pytest.mark.capability("transactions")
def test_a_producer_whose_transaction_took_too_long_goes_on(
    bootstrap_servers: str,
    make_topic: MakeTopic,
    java: Callable[..., list[str]],
    request: pytest.FixtureRequest,
) -> None:
    if request.config.getoption("--against") == "cluster":
        pytest.skip("before version 2 of transactions such a producer is fenced, as by Apache Kafka 3.9.1")
    topic = make_topic(PARTITIONS)
    command = [*java("LateTransaction", RELEASE), bootstrap_servers, topic]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.stdout.split() == ["InvalidProducerEpochException", "done"], run.stdout + run.stderr
    wait_until(lambda: read(bootstrap_servers, topic) == [["next"], [], []])


@pytest.fixture
def java() -> Callable[..., list[str]]:
    """The command line of a Java program with the clients of a release."""

    def command(program: str, release: str) -> list[str]:
        try:
            return program_command(HERE / f"{program}.java", release=release)
        except JarsUnavailableError as problem:
            pytest.skip(f"Apache Kafka is not available: {problem}")

    return command
