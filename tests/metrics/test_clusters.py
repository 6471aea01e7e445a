"""The metrics of a cluster: sums over all brokers are right."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

import kafkapy
from kafkapy.replicas.follower import Follower
from tests.cluster.test_cluster import create, produce, wait_until, wait_until_in_sync
from tests.metrics.prometheus import Samples

PARTITIONS = 3


@pytest.fixture
def cluster() -> Iterator[kafkapy.Cluster]:
    with kafkapy.Cluster(brokers=3, config={"metrics.port": 0, "offsets.topic.num.partitions": 1}) as started:
        yield started


def scrape(cluster: kafkapy.Cluster, broker: int) -> Samples:
    endpoint = cluster[broker].core.metrics
    assert endpoint is not None
    with urllib.request.urlopen(f"http://{endpoint.address}/metrics", timeout=60) as answer:
        return Samples(answer.read().decode())


def total(scrapes: Iterable[Samples], name: str, **labels: str) -> float:
    return sum(sum(each.having(name, **labels).values()) for each in scrapes)


def test_each_partition_and_each_lag_is_shown_by_one_broker(cluster: kafkapy.Cluster) -> None:
    # One replica each: the coordinator of the group has not all of them.
    create(cluster, "orders", PARTITIONS, 1)
    produce(cluster, "orders", range(10))
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "readers"})
    offsets = [TopicPartition("orders", partition, 4) for partition in range(PARTITIONS)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
    scrapes = [scrape(cluster, broker) for broker in cluster]
    assert total(scrapes, "kafka_brokers") == 3
    assert total(scrapes, "kafka_topic_partitions", topic="orders") == PARTITIONS
    records = 10 * PARTITIONS
    assert total(scrapes, "kafka_topic_partition_current_offset", topic="orders") == records
    assert total(scrapes, "kafka_server_brokertopicmetrics_messagesin_total", topic="orders") == records
    assert total(scrapes, "kafka_controller_kafkacontroller_activecontrollercount") == 1
    lags = [lag for each in scrapes for lag in each.having("kafka_consumergroup_lag", topic="orders")]
    assert len(lags) == PARTITIONS
    assert total(scrapes, "kafka_consumergroup_lag", topic="orders") == records - 4 * PARTITIONS


def test_a_broker_that_is_gone_leaves_its_partitions_under_replicated(cluster: kafkapy.Cluster) -> None:
    create(cluster, "orders", PARTITIONS, 3)
    wait_until_in_sync(cluster, "orders")
    produce(cluster, "orders", range(50))
    scrapes = [scrape(cluster, broker) for broker in cluster]
    assert total(scrapes, "kafka_topic_partition_under_replicated_partition") == 0
    assert total(scrapes, "kafka_server_brokertopicmetrics_replicationbytesin_total") > 0
    assert total(scrapes, "kafka_network_requestmetrics_requests_total", request="FetchFollower") > 0
    rate = "kafka_server_replicafetchermanager_minfetchrate"
    assert min(each.get(rate, clientId="Replica") or 0 for each in scrapes) > 0
    wait_until(
        lambda: (
            total([scrape(cluster, each) for each in cluster], "kafka_server_replicafetchermanager_maxlag")
            == 0
        )
    )
    gone = next(broker for broker in cluster if broker != cluster.controller)
    cluster.kill(gone)
    wait_until(
        lambda: (
            total(
                [scrape(cluster, broker) for broker in cluster],
                "kafka_server_replicamanager_underreplicatedpartitions",
            )
            >= PARTITIONS
        )
    )
    assert scrape(cluster, cluster.controller).get("kafka_brokers") == 2
    scrapes = [scrape(cluster, broker) for broker in cluster]
    assert total(scrapes, "kafka_controller_controllerstats_leaderelectionrateandtimems_count") > 0
    assert total(scrapes, "kafka_controller_controllerstats_uncleanleaderelections_total") == 0
    cluster.start(gone)
    wait_until_in_sync(cluster, "orders")
    scrapes = [scrape(cluster, broker) for broker in cluster]
    assert total(scrapes, "kafka_server_replicamanager_isrexpands_total") >= PARTITIONS


def test_the_lag_of_the_follower_that_is_most_behind_is_shown(cluster: kafkapy.Cluster) -> None:
    create(cluster, "orders", PARTITIONS, 3)
    wait_until_in_sync(cluster, "orders")
    produce(cluster, "orders", range(50))
    broker = next(iter(cluster))
    replicas = cluster[broker].core.replicas
    (key, follower) = next(
        (each.topic_partition, each.replication)
        for each in replicas
        if isinstance(each.replication, Follower) and each.topic_partition.topic == "orders"
    )
    wait_until(lambda: replicas.partition(*key).log.high_watermark == 50)
    follower.leader_high_watermark += 7  # as the next answer would say before its records are here
    lag = "kafka_server_replicafetchermanager_maxlag"
    assert scrape(cluster, broker).get(lag, clientId="Replica") == 7
