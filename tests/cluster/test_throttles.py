"""Throttled replicas are moved at the rate of their quota, and nobody else is slowed down."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

import kafkapy
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.cluster.test_cluster import QUIET, admin, logs, partitions, wait_until
from tests.network.raw_client import RawClient

RATE = 250_000
RECORDS, SIZE = 100, 10_000
LEAST_SECONDS = 2.0
"""A megabyte at RATE takes 4 s, less what the first answers bring before there is a rate."""


@pytest.fixture
def cluster() -> Iterator[kafkapy.Cluster]:
    settings = {
        "replica.fetch.max.bytes": 50_000,
        "replica.fetch.response.max.bytes": 50_000,
        "controlled.shutdown.enable": False,
    }
    with kafkapy.Cluster(brokers=3, config=settings) as started:
        yield started


def fill(cluster: kafkapy.Cluster, topic: str) -> None:
    """A topic on broker 1 with a megabyte of records that cannot be compressed."""
    client = admin(cluster)
    client.create_topics([NewTopic(topic, 1, replica_assignment=[[1]])])[topic].result()
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "batch.size": 20_000, **QUIET})
    for _ in range(RECORDS):
        producer.produce(topic, os.urandom(SIZE), partition=0)
    assert producer.flush(30) == 0


def set_configs(client: AdminClient, kind: ResourceType, name: str, **values: str | None) -> None:
    entries = [
        ConfigEntry(
            setting.replace("_", "."),
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for setting, value in values.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    for future in client.incremental_alter_configs([resource]).values():
        future.result()


def move(cluster: kafkapy.Cluster, topic: str, *replicas: int) -> None:
    wanted = [ReassignablePartition(partition_index=0, replicas=list(replicas))]
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=topic, partitions=wanted)], timeout_ms=10_000
    )
    with RawClient(cluster[cluster.controller].bootstrap_servers) as client:
        answer = client.ask(request, 0)
    assert [each.error_code for each in answer.responses[0].partitions] == [ErrorCode.NONE]


def wait_until_moved(cluster: kafkapy.Cluster, topic: str, *replicas: int) -> None:
    wait_until(lambda: sorted(partitions(cluster, topic)[0].isrs) == sorted(replicas))


@pytest.mark.parametrize(("role", "broker"), [("leader", 1), ("follower", 2)])
def test_a_throttled_replica_is_moved_at_the_rate_of_its_quota(
    cluster: kafkapy.Cluster, role: str, broker: int
) -> None:
    fill(cluster, "throttled")
    fill(cluster, "free")
    client = admin(cluster)
    rate = {f"{role}_replication_throttled_rate": str(RATE)}
    set_configs(client, ResourceType.BROKER, str(broker), **rate)
    replicas = {f"{role}_replication_throttled_replicas": f"0:{broker}"}
    set_configs(client, ResourceType.TOPIC, "throttled", **replicas)
    begun = time.monotonic()
    move(cluster, "throttled", 1, 2)
    move(cluster, "free", 1, 2)
    wait_until_moved(cluster, "free", 1, 2)
    assert sorted(partitions(cluster, "throttled")[0].isrs) == [1]
    wait_until_moved(cluster, "throttled", 1, 2)
    assert time.monotonic() - begun >= LEAST_SECONDS
    wait_until(lambda: len({log for log in logs(cluster, "throttled", 0) if log}) == 1)


def test_a_quota_that_is_taken_away_holds_nobody_back_any_more(cluster: kafkapy.Cluster) -> None:
    fill(cluster, "t")
    client = admin(cluster)
    set_configs(client, ResourceType.BROKER, "2", follower_replication_throttled_rate="1")
    set_configs(client, ResourceType.TOPIC, "t", follower_replication_throttled_replicas="*")
    move(cluster, "t", 1, 2)
    wait_until(lambda: len(logs(cluster, "t", 0)[1]) > 0)
    assert sorted(partitions(cluster, "t")[0].isrs) == [1]
    set_configs(client, ResourceType.BROKER, "2", follower_replication_throttled_rate=None)
    wait_until_moved(cluster, "t", 1, 2)


def test_a_replica_in_sync_is_not_held_back(cluster: kafkapy.Cluster) -> None:
    client = admin(cluster)
    client.create_topics([NewTopic("t", 1, replica_assignment=[[1, 2, 3]])])["t"].result()
    for broker in (1, 2, 3):
        rates = dict.fromkeys(
            ("leader_replication_throttled_rate", "follower_replication_throttled_rate"), "1"
        )
        set_configs(client, ResourceType.BROKER, str(broker), **rates)
    lists = ("leader_replication_throttled_replicas", "follower_replication_throttled_replicas")
    set_configs(client, ResourceType.TOPIC, "t", **dict.fromkeys(lists, "*"))
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", **QUIET})
    for _ in range(20):
        producer.produce("t", os.urandom(SIZE), partition=0)
        assert producer.flush(10) == 0
    assert sorted(partitions(cluster, "t")[0].isrs) == [1, 2, 3]
