"""Consumers of librdkafka read from the in-sync follower in their rack (KIP-392)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.cluster.conftest import StartCluster
from interop.support.cluster_processes import ClusterProcesses
from interop.support.waiting import wait_until
from tests.servers.kafkapy_process import KafkapyProcess
from tests.servers.server_process import ServerProcess

pytestmark = pytest.mark.slow

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER, FOLLOWER = 1, 2


def in_its_rack(folder: Path, properties: Mapping[str, str]) -> ServerProcess:
    """A broker whose rack has its number."""
    rack = f"rack-{properties['broker.id']}"
    return KafkapyProcess(folder, properties={**properties, "broker.rack": rack})


@pytest.fixture
def cluster(start_cluster: StartCluster) -> ClusterProcesses:
    """Three brokers in three racks, and a topic of one partition."""
    cluster = start_cluster(3, make=in_its_rack, replica_selector_class=SELECTOR)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic("t", 1, replica_assignment=[[LEADER, FOLLOWER, 3]])])["t"].result()
    cluster.wait_until_in_sync("t")
    return cluster


class Reader:
    """A consumer of the topic in a rack, and the broker of which it fetches."""

    def __init__(self, cluster: ClusterProcesses, rack: str) -> None:
        self.fetches_from = -1
        self.values: list[bytes] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "unused",
                "client.rack": rack,
                "statistics.interval.ms": 100,
                "stats_cb": self._note,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition("t", 0, 0)])

    def _note(self, statistics: str) -> None:
        partitions = json.loads(statistics)["topics"].get("t", {"partitions": {}})["partitions"]
        self.fetches_from = partitions["0"]["broker"] if "0" in partitions else -1

    def poll(self) -> bool:
        """Read what is there; whether it was anything."""
        messages = self._consumer.consume(500, timeout=0.2)
        for message in messages:
            assert message.error() is None, message.error()
            self.values.append(message.value() or b"")
        return bool(messages)

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def reader(cluster: ClusterProcesses) -> Iterator[Reader]:
    reader = Reader(cluster, f"rack-{FOLLOWER}")
    yield reader
    reader.close()


def write(cluster: ClusterProcesses, word: str) -> list[bytes]:
    values = [f"{word} {number}".encode() for number in range(200)]
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
    )
    for value in values:
        producer.produce("t", value, partition=0)
    assert producer.flush(60) == 0
    return values


def read_until(reader: Reader, broker: int) -> None:
    """Read on until the consumer fetches from this broker."""

    def fetches_from_it() -> bool:
        reader.poll()
        return reader.fetches_from == broker

    wait_until(fetches_from_it, timeout=60)


def read_until_all(reader: Reader, written: list[bytes]) -> None:
    wait_until(lambda: not reader.poll() and len(reader.values) >= len(written), timeout=60)
    assert reader.values == written


def test_the_follower_in_the_consumers_rack_is_read(cluster: ClusterProcesses, reader: Reader) -> None:
    written = write(cluster, "first")
    read_until(reader, FOLLOWER)
    written += write(cluster, "second")
    read_until_all(reader, written)
    assert reader.fetches_from == FOLLOWER
    assert cluster.leader("t") == LEADER


def test_a_consumer_goes_on_when_the_follower_that_it_reads_is_killed(
    cluster: ClusterProcesses, reader: Reader
) -> None:
    written = write(cluster, "first")
    read_until(reader, FOLLOWER)
    cluster[FOLLOWER].kill()
    written += write(cluster, "second")
    read_until(reader, LEADER)
    read_until_all(reader, written)
    cluster[FOLLOWER].start()
    cluster.wait_until_in_sync("t", timeout=60)
    written += write(cluster, "third")
    read_until_all(reader, written)


def test_a_consumer_of_no_rack_reads_from_the_leader(cluster: ClusterProcesses) -> None:
    written = write(cluster, "first")
    reader = Reader(cluster, "")
    try:
        read_until_all(reader, written)
        read_until(reader, LEADER)
    finally:
        reader.close()
