"""Brokers that are paused, or cut off from the others, as stock clients see it."""

from __future__ import annotations

import time

import kafka
import pytest
from confluent_kafka import Producer

import kafkapy

SOON = {"replica.lag.time.max.ms": 1000, "replica.fetch.wait.max.ms": 200}
"""Settings with which a follower is out of sync after a second."""


def write(cluster: kafkapy.Cluster) -> int | None:
    """Write a record by librdkafka; return its partition's leader."""
    writer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    writer.produce("orders", "two apples")
    assert writer.flush(30) == 0
    return leader(cluster)


def leader(cluster: kafkapy.Cluster) -> int:
    state = cluster[cluster.controller].core.metadata.image.partition("orders", 0)
    assert state is not None
    return state.leader


def in_sync(cluster: kafkapy.Cluster, broker: int) -> set[int]:
    """What a broker knows to be in sync with the leader."""
    state = cluster[broker].core.metadata.image.partition("orders", 0)
    assert state is not None
    return set(state.isr)


def wait_until_in_sync(cluster: kafkapy.Cluster, broker: int, wanted: set[int]) -> None:
    end = time.monotonic() + 30
    while in_sync(cluster, broker) != wanted:
        assert time.monotonic() < end, in_sync(cluster, broker)
        time.sleep(0.05)


@pytest.fixture(params=["cut_off", "pause"])
def how(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_a_follower_that_is_gone_leaves_and_comes_back(how: str) -> None:
    with kafkapy.Cluster(brokers=3, config=SOON) as cluster:
        first = write(cluster)
        assert first is not None
        wait_until_in_sync(cluster, first, {1, 2, 3})
        gone = next(each for each in (1, 2, 3) if each not in (first, cluster.controller))
        getattr(cluster, how)(gone)
        writer = kafka.KafkaProducer(
            bootstrap_servers=cluster[first].bootstrap_servers, acks="all", request_timeout_ms=20_000
        )
        writer.send("orders", b"a pear", partition=0).get(30)
        wait_until_in_sync(cluster, first, {1, 2, 3} - {gone})
        (cluster.heal if how == "cut_off" else lambda: cluster.resume(gone))()
        wait_until_in_sync(cluster, first, {1, 2, 3})
        writer.close()
        assert len(cluster[first].records("orders")) == 2


def test_a_broker_that_does_not_exist_is_not_cut_off() -> None:
    with pytest.raises(ValueError, match="there is no broker 4: expected 1 to 3"):
        kafkapy.Cluster(brokers=3).cut_off(4)
