"""Brokers go away under load, and nothing that was acknowledged is lost.

Clients continue by themselves.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.cluster.conftest import StartCluster
from interop.support.cluster_processes import ClusterProcesses
from interop.support.waiting import wait_until
from tests.crash.load import RecordingProducer, random_value, read_pass
from tests.promises.checker import check
from tests.promises.history import Acked, History, Partition

pytestmark = pytest.mark.slow

PARTITIONS = 3
Fault = Callable[[ClusterProcesses, random.Random], None]


def create(cluster: ClusterProcesses, topic: str, partitions: int = PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result()
    cluster.wait_until_in_sync(topic)


def kill_leader(cluster: ClusterProcesses, chance: random.Random) -> None:
    leader = cluster.leader("orders", chance.randrange(PARTITIONS))
    if leader > 0:
        cluster[leader].kill()
        time.sleep(chance.random() * 6)  # returns before or after its session has ended
        cluster[leader].start()


def kill_all(cluster: ClusterProcesses, chance: random.Random) -> None:
    for broker in cluster:
        broker.kill()
    for broker in cluster:
        broker.start()


@pytest.mark.parametrize("fault", [kill_leader, kill_all])
def test_nothing_acknowledged_is_lost(start_cluster: StartCluster, fault: Fault) -> None:
    cluster = start_cluster()
    create(cluster, "orders")
    chance, history, stop = random.Random(11), History(), threading.Event()
    partitions: list[Partition] = [("orders", index) for index in range(PARTITIONS)]
    producer = RecordingProducer("p", cluster.bootstrap_servers, history, idempotent=True)

    def produce() -> None:
        while not stop.is_set():
            producer.send(chance.choice(partitions), random_value(chance, 2000))
            producer.poll()
            time.sleep(0.002)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        for _ in range(3):
            before = sum(isinstance(event, Acked) for event in history)
            fault(cluster, chance)
            wait_until(
                lambda before=before: sum(isinstance(event, Acked) for event in history) >= before + 100,  # type: ignore[misc]
                timeout=60,
            )
    finally:
        stop.set()
        thread.join()
    producer.flush()
    assert producer.fatal is None
    cluster.wait_until_in_sync("orders", timeout=60)
    read_pass(cluster.bootstrap_servers, "last", dict.fromkeys(partitions, 0), history)
    assert check(history) == []


def test_a_group_goes_on_after_its_coordinator_was_killed(start_cluster: StartCluster) -> None:
    cluster = start_cluster()
    create(cluster, "orders", 1)
    servers = cluster.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe(["orders"])
        for number in range(4):
            producer.produce("orders", b"%d" % number)
            assert producer.flush(60) == 0
            message = wait_until(lambda: consumer.poll(1), timeout=60)
            assert message.value() == b"%d" % number
            consumer.commit(message, asynchronous=False)
            admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
            broker = admin.describe_consumer_groups(["readers"])["readers"].result(30).coordinator.id
            cluster[broker].kill()
            # librdkafka may give up at a broker that is not the coordinator yet.
            committed = wait_until(
                lambda: consumer.committed(consumer.assignment(), timeout=30),
                timeout=60,
                ignoring=KafkaException,
            )
            assert [each.offset for each in committed] == [number + 1]
            cluster[broker].start()
            cluster.wait_until_in_sync("orders")
            cluster.wait_until_in_sync("__consumer_offsets")
    finally:
        consumer.close()
