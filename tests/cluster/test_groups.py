"""Consumer groups and administration in a cluster, by a stock client."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

import kafkapy
from tests.cluster.test_cluster import QUIET, admin, create, wait_until

OFFSETS = "__consumer_offsets"
GROUPS = 4


@pytest.fixture
def cluster() -> Iterator[kafkapy.Cluster]:
    config = {
        "offsets.topic.num.partitions": 6,
        "offsets.commit.timeout.ms": 500,
        # An offset cannot be committed while two of three brokers are not in sync.
        "min.insync.replicas": 2,
    }
    with kafkapy.Cluster(brokers=3, config=config) as started:
        yield started


def coordinators(cluster: kafkapy.Cluster) -> list[int]:
    """The leaders of the offsets topic's partitions."""
    image = cluster[next(iter(cluster))].core.metadata.image
    topic = image.topics.get(OFFSETS)
    return [] if topic is None else [state.leader for state in topic.partitions]


def offsets_are_in_sync(cluster: kafkapy.Cluster) -> bool:
    topic = cluster[next(iter(cluster))].core.metadata.image.topics.get(OFFSETS)
    return topic is not None and all(len(state.isr) == 3 for state in topic.partitions)


def are_stable(cluster: kafkapy.Cluster, groups: Iterable[str], members: int) -> bool:
    """Whether these groups have so many members, each with its assignment."""
    client = admin(cluster)
    described = [future.result() for future in client.describe_consumer_groups(list(groups)).values()]
    return all(each.state.name == "STABLE" and len(each.members) == members for each in described)


def consumer(cluster: kafkapy.Cluster, group: str, **settings: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 20_000,
            **QUIET,
            **settings,
        }
    )


class Members:
    """Members of several groups in threads, which read everything and commit now and then."""

    def __init__(self, cluster: kafkapy.Cluster, topic: str) -> None:
        self.read: dict[str, Counter[int]] = {f"g{number}": Counter() for number in range(GROUPS)}
        self.assignments: Counter[str] = Counter()
        self._cluster, self._topic = cluster, topic
        self._end = threading.Event()
        self._threads = [
            threading.Thread(target=self._consume, args=(group,)) for group in self.read for _ in range(2)
        ]

    def __enter__(self) -> Members:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _consume(self, group: str) -> None:
        member = consumer(self._cluster, group)
        member.subscribe([self._topic], on_assign=lambda *_: self.assignments.update([group]))
        try:
            while not self._end.is_set():
                message = member.poll(0.1)
                if message is None or message.error():
                    continue
                number = int(message.value() or b"")
                self.read[group][number] += 1
                if number % 20 == 0:
                    member.commit(message=message, asynchronous=False)
        finally:
            member.close()

    def have_read(self, count: int) -> bool:
        return all(len(read) == count for read in self.read.values())


def test_groups_outlive_their_coordinators_without_a_rebalance(cluster: kafkapy.Cluster) -> None:
    create(cluster, "t", 4)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", **QUIET})
    sent = 0

    def produce() -> None:
        nonlocal sent
        for _ in range(100):
            producer.produce("t", b"%d" % sent)
            sent += 1
        assert producer.flush(60) == 0

    with Members(cluster, "t") as members:
        wait_until(lambda: are_stable(cluster, members.read, 2), ignoring=KafkaException)
        produce()
        wait_until(lambda: members.have_read(sent))
        before = Counter(members.assignments)
        for broker, end in ((1, "kill"), (2, "stop"), (3, "kill")):
            wait_until(lambda: offsets_are_in_sync(cluster))
            assert broker in coordinators(cluster)
            getattr(cluster, end)(broker)
            produce()
            wait_until(lambda: members.have_read(sent))
            cluster.start(broker)
        assert members.assignments == before, "nobody had to join again"
        assert all(set(read.values()) == {1} for read in members.read.values()), "and nothing was read twice"


def test_a_coordinator_that_is_cut_off_says_so_in_time(cluster: kafkapy.Cluster) -> None:
    create(cluster, "t", 1)
    wanted = [TopicPartition("t", 0, 5)]
    member = consumer(cluster, "g")
    member.commit(offsets=wanted, asynchronous=False)
    wait_until(lambda: offsets_are_in_sync(cluster))
    for one, other in ((1, 2), (1, 3), (2, 3)):
        cluster.partition(one, other)
    wanted[0].offset = 6
    with pytest.raises(KafkaException) as refused:
        member.commit(offsets=wanted, asynchronous=False)
    assert refused.value.args[0].name() == "COORDINATOR_NOT_AVAILABLE"
    cluster.heal()
    wait_until(lambda: member.commit(offsets=wanted, asynchronous=False), ignoring=KafkaException)
    assert member.committed([TopicPartition("t", 0)], timeout=30)[0].offset == 6
    member.close()


def test_every_broker_creates_topics_on_demand(cluster: kafkapy.Cluster) -> None:
    for broker in (1, 2, 3):
        servers = cluster[broker].bootstrap_servers
        client = AdminClient({"bootstrap.servers": servers, "allow.auto.create.topics": True, **QUIET})
        topic = f"asked-of-{broker}"
        producer = Producer({"bootstrap.servers": servers, **QUIET})
        producer.produce(topic, b"first")
        assert producer.flush(60) == 0
        (partition,) = client.list_topics(topic, timeout=10).topics[topic].partitions.values()
        assert len(partition.replicas) == 3


def test_groups_of_all_coordinators_are_listed_described_and_deleted(cluster: kafkapy.Cluster) -> None:
    create(cluster, "t", 1)
    groups = [f"group-{number}" for number in range(12)]
    for group in groups:
        member = consumer(cluster, group)
        wait_until(
            lambda member=member: member.commit(offsets=[TopicPartition("t", 0, 5)], asynchronous=False),  # type: ignore[misc]
            ignoring=KafkaException,
        )
        member.close()
    assert set(coordinators(cluster)) == {1, 2, 3}
    client = admin(cluster)
    listed = client.list_consumer_groups().result()
    assert {each.group_id for each in listed.valid} == set(groups)
    assert not listed.errors
    described = client.describe_consumer_groups(groups)
    assert {future.result().state.name for future in described.values()} == {"EMPTY"}
    assert {future.result().coordinator.id for future in described.values()} == {1, 2, 3}
    for future in client.delete_consumer_groups(groups).values():
        future.result()
    assert not client.list_consumer_groups().result().valid


def test_settings_are_changed_where_they_belong(cluster: kafkapy.Cluster) -> None:
    client = admin(cluster)
    create(cluster, "t", 1)
    change = {"incremental_operation": AlterConfigOpType.SET}
    resources = [
        ConfigResource(
            ResourceType.TOPIC, "t", incremental_configs=[ConfigEntry("retention.ms", "5000", **change)]
        ),
        *(
            ConfigResource(
                ResourceType.BROKER,
                str(broker),
                incremental_configs=[ConfigEntry("log.retention.ms", f"{broker}000", **change)],
            )
            for broker in (1, 2, 3)
        ),
    ]
    for resource in resources:
        for future in client.incremental_alter_configs([resource]).values():
            future.result()
    for broker in (1, 2, 3):
        config = cluster[broker].core.config
        wait_until(lambda broker=broker, config=config: config["log.retention.ms"] == broker * 1000)  # type: ignore[misc]
        partition = cluster[broker].core.replicas.partition("t", 0)
        wait_until(lambda partition=partition: partition.log.config.retention_ms == 5000)  # type: ignore[misc]
