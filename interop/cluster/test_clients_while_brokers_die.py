"""Stock clients at work while leaders, coordinators and controllers are killed and stopped.

They see only errors that pass, nothing is lost or doubled, and their groups continue without a rebalance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription, NewTopic

from interop.cluster.java_at_work import JavaAtWork
from interop.cluster.librdkafka_at_work import LibrdkafkaAtWork
from interop.cluster.working_clients import Place, WorkingClients
from interop.support.cluster_processes import ClusterProcesses
from interop.support.waiting import wait_until
from interop.support.watermarks import watermarks
from interop.support.zookeeper_process import ZooKeeperProcess

pytestmark = [pytest.mark.slow, pytest.mark.jvm]
PARTITIONS = 3
FEW = 100
"""Records that are acknowledged and read before and during each fault."""

PASSING = {
    # the first answer to a member that joins
    "MEMBER_ID_REQUIRED",
    # the metadata that a client has is old
    "NOT_LEADER_OR_FOLLOWER",
    "LEADER_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    # the coordinator moves
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "NOT_COORDINATOR",
    # replicas are missing, or have not caught up
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "OFFSET_NOT_AVAILABLE",
    # the connection or the answer is lost
    "NETWORK_EXCEPTION",
    "REQUEST_TIMED_OUT",
}


def leader(cluster: ClusterProcesses, clients: list[WorkingClients]) -> int:
    return cluster.leader(clients[0].topic)


def coordinator(cluster: ClusterProcesses, clients: list[WorkingClients]) -> int:
    """The coordinator of the first clients' group, as soon as it has loaded the group."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    group = clients[0].group

    def describe() -> ConsumerGroupDescription:
        return admin.describe_consumer_groups([group])[group].result(30)

    return int(wait_until(describe, ignoring=KafkaException).coordinator.id)


def controller(cluster: ClusterProcesses, _clients: list[WorkingClients]) -> int:
    return int(cluster.metadata().controller_id)


Choice = Callable[[ClusterProcesses, list[WorkingClients]], int]
FAULTS: list[tuple[str, Choice]] = [
    (how, victim) for victim in (leader, coordinator, controller) for how in ("kill", "stop")
]


@pytest.fixture(scope="module")
def cluster(
    zookeeper: ZooKeeperProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterProcesses]:
    folder = tmp_path_factory.mktemp("dying")
    # Both groups have the same coordinator.
    properties = {"offsets.topic.num.partitions": "1"}
    with ClusterProcesses(folder, zookeeper, chroot="/dying", properties=properties) as started:
        yield started


@pytest.fixture(scope="module")
def worked(
    cluster: ClusterProcesses, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, WorkingClients]]:
    """Clients of each library, after all faults; their consumers have read everything."""
    servers = cluster.bootstrap_servers
    clients = [JavaAtWork(servers, tmp_path_factory.mktemp("java")), LibrdkafkaAtWork(servers)]
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for created in admin.create_topics([NewTopic(each.topic, PARTITIONS) for each in clients]).values():
        created.result(30)
    with ExitStack() as ending:
        for each in clients:
            cluster.wait_until_in_sync(each.topic)
            ending.callback(each.end)
            each.start()
        wait_until_work_is_done(clients, timeout=120)
        for how, victim in FAULTS:
            number = victim(cluster, clients)
            getattr(cluster[number], how)()
            wait_until_work_is_done(clients)
            cluster[number].start()
            for topic in (*(each.topic for each in clients), "__consumer_offsets"):
                cluster.wait_until_in_sync(topic, timeout=60)
        for each in clients:
            each.stop_producer()
            wait_until(lambda each=each: len(each.consumed) >= len(each.acknowledged), timeout=60)  # type: ignore[misc]
            each.stop_consumer()
            print(f"{each.name}: {len(each.consumed)} records; errors that passed: {dict(each.errors())}")
        yield {each.name: each for each in clients}


def wait_until_work_is_done(clients: list[WorkingClients], *, timeout: float = 60) -> None:
    before = [(len(each.acknowledged), len(each.consumed)) for each in clients]
    wait_until(
        lambda: all(
            len(each.acknowledged) >= acknowledged + FEW and len(each.consumed) >= consumed + FEW
            for each, (acknowledged, consumed) in zip(clients, before, strict=True)
        ),
        timeout=timeout,
    )


every_library = pytest.mark.parametrize("name", [JavaAtWork.name, LibrdkafkaAtWork.name])


@every_library
def test_clients_see_only_errors_that_pass(worked: dict[str, WorkingClients], name: str) -> None:
    assert worked[name].told == []
    errors = worked[name].errors()
    assert errors, "its log was not read"
    assert set(errors) <= PASSING


@every_library
def test_each_record_is_there_once_where_it_was_acknowledged(
    worked: dict[str, WorkingClients], cluster: ClusterProcesses, name: str
) -> None:
    clients = worked[name]
    content = all_records(cluster, clients.topic)
    assert content == dict(clients.acknowledged)
    assert Counter(content.values()).most_common(1)[0][1] == 1
    for partition in range(PARTITIONS):
        numbers = [int(value) for place, value in sorted(content.items()) if place[0] == partition]
        assert numbers == sorted(numbers)


@every_library
def test_the_consumer_is_given_each_record_once_in_order(
    worked: dict[str, WorkingClients], cluster: ClusterProcesses, name: str
) -> None:
    clients = worked[name]
    content = all_records(cluster, clients.topic)
    for partition in range(PARTITIONS):
        given = [(place, value) for place, value in clients.consumed if place[0] == partition]
        assert given == [item for item in sorted(content.items()) if item[0][0] == partition]


@every_library
def test_its_group_is_not_rebalanced(worked: dict[str, WorkingClients], name: str) -> None:
    assert worked[name].assignments == [set(range(PARTITIONS))]


@every_library
def test_its_group_has_committed_the_end(
    worked: dict[str, WorkingClients], cluster: ClusterProcesses, name: str
) -> None:
    clients = worked[name]
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": clients.group})
    partitions = [TopicPartition(clients.topic, number) for number in range(PARTITIONS)]
    committed = consumer.committed(partitions, timeout=30)
    ends = [watermarks(consumer, each)[1] for each in partitions]
    consumer.close()
    assert [each.offset for each in committed] == ends


def all_records(cluster: ClusterProcesses, topic: str) -> dict[Place, str]:
    """What the topic holds, read by another client."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "unused", "log_level": 0}
    consumer = Consumer(settings)
    try:
        partitions = [TopicPartition(topic, number, 0) for number in range(PARTITIONS)]
        left = sum(watermarks(consumer, each)[1] for each in partitions)
        consumer.assign(partitions)
        content: dict[Place, str] = {}
        while len(content) < left:
            messages = consumer.consume(left - len(content), 30)
            assert messages, f"{left - len(content)} records of {topic} are not given"
            for message in messages:
                assert message.error() is None, message.error()
                content[message.partition(), message.offset()] = message.value().decode()
        return content
    finally:
        consumer.close()
