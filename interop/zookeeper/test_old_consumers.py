"""Consumers of Kafka 0.8.2 read from kafkapy.

They share partitions and keep offsets in ZooKeeper.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from interop.old_clients.java_clients import FIRST_WITH_SIMPLE_CONSUMER, jars
from interop.support.cluster_processes import ClusterProcesses
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.waiting import wait_until
from interop.support.zookeeper_process import ZooKeeperProcess

PARTITIONS = 4
GROUP, TOPIC = "old", "t"
_JAVA = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


class OldConsumer:
    """A running kafka-console-consumer of 0.8.2 with --zookeeper."""

    def __init__(self, folder: Path, connect: str, name: str, *arguments: str) -> None:
        properties = folder / f"{name}.properties"
        settings = {
            "group.id": GROUP,
            "consumer.id": name,
            "auto.commit.interval.ms": "200",
            "zookeeper.session.timeout.ms": "4000",
            "rebalance.backoff.ms": "1000",
        }
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = [*_JAVA, "-cp", f"{jars(FIRST_WITH_SIMPLE_CONSUMER)}/*", "kafka.tools.ConsoleConsumer"]
        command += ["--zookeeper", connect, "--topic", TOPIC, "--consumer.config", str(properties)]
        self._log = (folder / f"{name}.log").open("wb")
        self._process = subprocess.Popen(
            [*command, *arguments], stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        self.values: list[str] = []
        """What it has read."""
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.values.append(line.strip())

    def stop(self) -> None:
        """Stop it in order: it commits, and leaves its group."""
        self._process.terminate()
        try:
            self._process.wait(30)
        finally:
            self._process.kill()
            self._process.wait()
            self._reading.join()
            self._log.close()


StartConsumer = Callable[..., OldConsumer]


@pytest.fixture
def cluster(zookeeper: ZooKeeperProcess, hand: KazooClient, tmp_path: Path) -> Iterator[ClusterProcesses]:
    settings = {"min.insync.replicas": "1", "default.replication.factor": "2"}
    processes = ClusterProcesses(tmp_path, zookeeper, brokers=2, chroot=hand.chroot, properties=settings)
    with processes as started:
        client = AdminClient({"bootstrap.servers": started.bootstrap_servers, "log_level": 0})
        client.create_topics([NewTopic(TOPIC, PARTITIONS, 2)])[TOPIC].result()
        started.wait_until_in_sync(TOPIC, 2)
        yield started


@pytest.fixture
def start_consumer(cluster: ClusterProcesses, connect: str, tmp_path: Path) -> Iterator[StartConsumer]:
    """Starts a consumer of the group."""
    with skipped_without_jars():
        jars(FIRST_WITH_SIMPLE_CONSUMER)
    with ExitStack() as started:

        def start(name: str, *arguments: str) -> OldConsumer:
            consumer = OldConsumer(tmp_path, connect, name, *arguments)
            started.callback(consumer.stop)
            return consumer

        yield start


def produce(cluster: ClusterProcesses, word: str, count: int) -> set[str]:
    """Write `count` records to each partition; return their values."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    values = {f"{word}-{index}-{number}" for index in range(PARTITIONS) for number in range(count)}
    for value in sorted(values):
        producer.produce(TOPIC, value, partition=int(value.split("-")[1]))
    assert producer.flush(30) == 0
    return values


def owners(hand: KazooClient) -> dict[int, str]:
    """The consumer that owns each partition."""
    found = {}
    path = f"/consumers/{GROUP}/owners/{TOPIC}"
    for index in hand.get_children(path):
        found[int(index)] = hand.get(f"{path}/{index}")[0].decode().rpartition("-")[0].partition("_")[2]
    return found


def offsets(hand: KazooClient) -> dict[int, int]:
    path = f"/consumers/{GROUP}/offsets/{TOPIC}"
    return {int(index): int(hand.get(f"{path}/{index}")[0]) for index in hand.get_children(path)}


def test_a_consumer_goes_on_where_its_group_has_stopped(
    cluster: ClusterProcesses, start_consumer: StartConsumer, hand: KazooClient
) -> None:
    first = produce(cluster, "first", 50)
    consumer = start_consumer("c1", "--from-beginning")
    wait_until(lambda: set(consumer.values) == first, timeout=60)
    consumer.stop()
    assert len(consumer.values) == len(first)
    assert offsets(hand) == dict.fromkeys(range(PARTITIONS), 50)
    second = produce(cluster, "second", 20)
    again = start_consumer("c2")
    wait_until(lambda: set(again.values) == second, timeout=60)
    again.stop()
    assert len(again.values) == len(second)
    assert offsets(hand) == dict.fromkeys(range(PARTITIONS), 70)


def test_two_consumers_share_the_partitions_by_range(
    cluster: ClusterProcesses, start_consumer: StartConsumer, hand: KazooClient
) -> None:
    everything = produce(cluster, "first", 50)
    one = start_consumer("c1", "--from-beginning")
    wait_until(lambda: set(one.values) == everything, timeout=60)
    two = start_consumer("c2")
    shared = {0: "c1", 1: "c1", 2: "c2", 3: "c2"}
    wait_until(lambda: owners(hand) == shared, timeout=60, ignoring=NoNodeError)
    second = produce(cluster, "second", 30)
    wait_until(lambda: second <= {*one.values, *two.values}, timeout=60)
    assert {value.split("-")[1] for value in two.values} == {"2", "3"}
    assert {value.split("-")[1] for value in one.values if value in second} == {"0", "1"}
    one.stop()
    alone = dict.fromkeys(range(PARTITIONS), "c2")
    wait_until(lambda: owners(hand) == alone, timeout=60, ignoring=NoNodeError)
    third = produce(cluster, "third", 10)
    wait_until(lambda: third <= set(two.values), timeout=60)
