"""A share group in a cluster: leaders, coordinators and states move when brokers go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Producer, ShareConsumer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

import kafkapy
from tests.cluster.test_cluster import QUIET, admin, create, wait_until

RECORDS = 300
STATES = "__share_group_state"


@pytest.fixture
def cluster() -> Iterator[kafkapy.Cluster]:
    config = {
        "offsets.topic.num.partitions": 3,
        "share.coordinator.state.topic.num.partitions": 3,
        "group.share.assignment.interval.ms": 0,
        "group.share.heartbeat.interval.ms": 300,
        "group.share.min.heartbeat.interval.ms": 300,
    }
    with kafkapy.Cluster(brokers=3, config=config) as started:
        yield started


def begin_at_the_first_record(cluster: kafkapy.Cluster, group: str) -> None:
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    client = admin(cluster)
    client.incremental_alter_configs([resource])[resource].result(30)


class Member:
    """A share consumer that accepts everything, and counts what was stored."""

    def __init__(self, cluster: kafkapy.Cluster, topic: str) -> None:
        self.accepted: Counter[int] = Counter()
        settings: dict[str, Any] = {"group.id": "g", "share.acknowledgement.mode": "explicit", **QUIET}
        self._consumer = ShareConsumer({"bootstrap.servers": cluster.bootstrap_servers, **settings})
        self._consumer.subscribe([topic])

    def take(self) -> None:
        """Poll once, and accept what came."""
        numbers: dict[tuple[str, int], list[int]] = {}
        for message in self._consumer.poll(0.5):
            if message.error() is None:
                self._consumer.acknowledge(message, AcknowledgeType.ACCEPT)
                place = message.topic() or "", message.partition() or 0
                numbers.setdefault(place, []).append(int(message.value() or b""))
        if numbers:
            for place, error in self._consumer.commit_sync(30).items():
                if error is None:
                    self.accepted.update(numbers.get((place.topic, place.partition), ()))

    def close(self) -> None:
        self._consumer.close()


def test_records_are_settled_once_though_every_broker_goes_down_in_turn(cluster: kafkapy.Cluster) -> None:
    create(cluster, "t")
    begin_at_the_first_record(cluster, "g")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
    member = Member(cluster, "t")
    try:
        for number, broker in enumerate(list(cluster)):
            wanted = RECORDS * (number + 1)
            for value in range(RECORDS * number, wanted):
                producer.produce("t", str(value))
            assert producer.flush(30) == 0

            def some(enough: int = wanted - RECORDS // 2) -> bool:
                member.take()
                return len(member.accepted) >= enough

            wait_until(some)
            cluster.kill(broker)
            wait_until(lambda enough=wanted: some(enough))  # type: ignore[misc]
            cluster.start(broker)
    finally:
        member.close()
    assert sorted(member.accepted) == list(range(3 * RECORDS))
    assert set(member.accepted.values()) == {1}, "what was stored is not delivered again"
    image = cluster[1].core.metadata.image
    assert len(image.topics[STATES].partitions[0].replicas) == 3
