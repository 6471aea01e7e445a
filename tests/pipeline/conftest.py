"""One broker for all tests of pipelines, and topics that no other test uses."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

import kafkapy
from kafkapy.pipeline.topics import Topics

MakeTopic = Callable[..., str]

_numbers = itertools.count(1)


def delete_records(bootstrap: str, topic: str, before: Mapping[int, int]) -> None:
    """Delete records as retention does: each partition begins at that offset afterwards."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    places = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
    for future in admin.delete_records(places).values():
        future.result(10)


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    config = {"auto.create.topics.enable": True, "group.initial.rebalance.delay.ms": 0}
    with kafkapy.Broker(config=config) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="session")
def topics(bootstrap: str) -> Topics:
    return Topics(bootstrap)


@pytest.fixture
def make_topic(topics: Topics) -> MakeTopic:
    """`make_topic(partitions=2, records=9, retention_ms="1")`; record 5 is in partition 5 % 2."""

    def make(partitions: int = 1, records: int = 0, name: str = "topic", **configs: str) -> str:
        topic = f"{name}-{next(_numbers)}"
        settings = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in configs.items()}}
        assert topics.create(topic, partitions, settings)
        producer = topics.producer()
        for number in range(records):
            producer.produce(
                topic,
                key=f"key {number}",
                value=f"value {number}",
                partition=number % partitions,
                timestamp=1_000 + number,
            )
        assert producer.flush(10) == 0
        return topic

    return make
