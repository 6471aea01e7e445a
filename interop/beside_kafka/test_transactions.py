"""Transactions whose coordinators, leaders and groups are brokers of both kinds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from interop.beside_kafka.conftest import StartMixed
from interop.beside_kafka.mixed_cluster import KAFKA, KAFKAPY, MixedCluster
from interop.beside_kafka.records import wait_until_equal
from interop.support.waiting import wait_until
from interop.support.watermarks import watermarks
from kafkapy.coordination.partitioning import partition_of

pytestmark = pytest.mark.slow

EACH_LEADS_ONE = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
IDS = {partition_of(name, 3) + 1: name for name in map("id-{}".format, reversed(range(20)))}
"""A transactional id for the broker that coordinates it."""
SECONDS = 30.0


@pytest.fixture(scope="module")
def shared_cluster(start_mixed: StartMixed) -> MixedCluster:
    cluster = start_mixed({1: KAFKA, 2: KAFKAPY, 3: KAFKAPY}, offsets_topic_num_partitions="3")
    for topic in (OFFSETS, TRANSACTIONS):
        cluster.create(topic, EACH_LEADS_ONE, cleanup_policy="compact")
    return cluster


@pytest.fixture
def topic(cluster: MixedCluster, numbers: Iterator[int]) -> str:
    """A topic of which each broker leads a partition."""
    for internal in (OFFSETS, TRANSACTIONS):
        cluster.wait_until_in_sync(internal)
        cluster.elect_preferred(internal, 3)
    name = f"orders-{next(numbers)}"
    cluster.create(name, EACH_LEADS_ONE, min_insync_replicas="2")
    return name


@pytest.fixture(scope="module")
def numbers() -> Iterator[int]:
    return itertools.count()


def transactional(cluster: MixedCluster, name: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": name,
            "transaction.timeout.ms": 60_000,
            "log_level": 0,
        }
    )
    retried(producer.init_transactions, SECONDS)
    return producer


def retried(call: Callable[..., Any], *args: object) -> None:
    """Call what may be called again after an error that says so."""

    def once() -> bool:
        try:
            call(*args)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            return False
        return True

    wait_until(once, timeout=120)


def consumer(cluster: MixedCluster, group: str, isolation: str = "read_committed") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )


def values(cluster: MixedCluster, topic: str) -> list[bytes]:
    """What a consumer of committed records reads to the ends of the partitions."""
    reader = consumer(cluster, "none")
    try:
        partitions = [TopicPartition(topic, index, 0) for index in range(3)]
        ends = {each.partition: watermarks(reader, each)[1] for each in partitions}
        reader.assign(partitions)
        found: list[bytes] = []

        def read() -> bool:
            for message in reader.consume(500, 0.5):
                assert message.error() is None
                found.append(message.value())
            return all(each.offset >= ends[each.partition] for each in reader.position(partitions))

        wait_until(read, timeout=60)
        return found
    finally:
        reader.close()


def committed(cluster: MixedCluster, group: str, topic: str) -> int:
    reader = consumer(cluster, group)
    try:
        return int(reader.committed([TopicPartition(topic, 0)], SECONDS)[0].offset)
    finally:
        reader.close()


@pytest.mark.parametrize("coordinator", [1, 2, 3])
def test_all_kinds_of_leaders_take_part(cluster: MixedCluster, topic: str, coordinator: int) -> None:
    producer = transactional(cluster, IDS[coordinator])
    groups = {partition_of(name, 3): name for name in map(f"{topic}-{{}}".format, range(20))}
    for number, commit in enumerate((True, False, True)):
        producer.begin_transaction()
        for partition in range(3):
            producer.produce(topic, b"%d" % number, partition=partition)
        for group in groups.values():
            member = consumer(cluster, group)
            producer.send_offsets_to_transaction(
                [TopicPartition(topic, 0, number + 1)], member.consumer_group_metadata(), SECONDS
            )
            member.close()
        assert producer.flush(SECONDS) == 0
        retried(producer.commit_transaction if commit else producer.abort_transaction, SECONDS)
    assert sorted(values(cluster, topic)) == [b"0"] * 3 + [b"2"] * 3
    for group in groups.values():
        assert committed(cluster, group, topic) == 3
    for partition in range(3):
        wait_until_equal(cluster, topic, partition=partition)
        wait_until_equal(cluster, OFFSETS, partition=partition)


@pytest.mark.parametrize("coordinator", [1, 2])
def test_a_transaction_ends_whole_whoever_is_killed(
    cluster: MixedCluster, topic: str, coordinator: int
) -> None:
    """Brokers are killed before the end of a transaction, and while its markers are written."""
    producer = transactional(cluster, IDS[coordinator])
    wanted: list[bytes] = []
    for number, (victim, commit) in enumerate(itertools.product((1, 2, 3), (True, False))):
        producer.begin_transaction()
        for partition in range(3):
            producer.produce(topic, b"%d" % number, partition=partition)
        assert producer.flush(SECONDS) == 0
        cluster[victim].kill()
        retried(producer.commit_transaction if commit else producer.abort_transaction, SECONDS)
        wanted += [b"%d" % number] * 3 * commit
        cluster.start_all()
        for name in (TRANSACTIONS, topic):
            cluster.wait_until_in_sync(name)
    assert sorted(values(cluster, topic)) == sorted(wanted)
