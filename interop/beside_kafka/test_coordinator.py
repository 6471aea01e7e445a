"""The coordinator of a consumer group moves between Apache Kafka and kafkapy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import ConsumerGroupDescription

from interop.beside_kafka.conftest import StartMixed
from interop.beside_kafka.mixed_cluster import KAFKA, KAFKAPY, MixedCluster
from interop.beside_kafka.records import wait_until_equal, write
from interop.support.waiting import wait_until

OFFSETS = "__consumer_offsets"


@pytest.fixture(scope="module")
def shared_cluster(start_mixed: StartMixed) -> MixedCluster:
    cluster = start_mixed({1: KAFKA, 2: KAFKA, 3: KAFKAPY}, offsets_topic_num_partitions="1")
    cluster.create(OFFSETS, [[3, 1, 2]], cleanup_policy="compact")
    return cluster


@pytest.fixture
def consumer(cluster: MixedCluster) -> Iterator[Consumer]:
    client = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    yield client
    client.close()


def described(cluster: MixedCluster) -> ConsumerGroupDescription:
    """The group, as a client that has just come is told."""

    def ask() -> ConsumerGroupDescription:
        admin = cluster.admin()  # it must live until the answer is here
        return admin.describe_consumer_groups(["readers"], request_timeout=5)["readers"].result(10)

    return wait_until(ask, ignoring=(KafkaException, TimeoutError), timeout=60)


def test_a_group_goes_on_wherever_its_coordinator_is(cluster: MixedCluster, consumer: Consumer) -> None:
    cluster.create("orders", [[1, 2, 3]])
    lost: list[object] = []
    consumer.subscribe(["orders"], on_lost=lambda *_: lost.append(_))
    coordinators = []

    def step(number: int) -> None:
        write(cluster, "orders", [b"%d" % number])
        message = wait_until(lambda: consumer.poll(1), timeout=60)
        assert message.error() is None
        assert message.value() == b"%d" % number
        consumer.commit(message, asynchronous=False)
        committed = consumer.committed(consumer.assignment(), timeout=30)
        assert [each.offset for each in committed] == [number + 1]
        found = described(cluster)
        assert len(found.members) == 1
        coordinators.append(cluster.kinds[found.coordinator.id])

    step(0)
    for number, away in enumerate((cluster[3].stop, cluster[3].kill)):
        away()
        step(3 * number + 1)
        cluster.start_all()
        cluster.wait_until_in_sync(OFFSETS)
        step(3 * number + 2)
        cluster.elect_preferred(OFFSETS)
        step(3 * number + 3)
    assert coordinators == [KAFKAPY, *[KAFKA, KAFKA, KAFKAPY] * 2]
    assert lost == []
    wait_until_equal(cluster, OFFSETS)
