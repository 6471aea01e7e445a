"""What Apache Kafka's coordinators left in a directory continues here.

There are open transactions, and groups at work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from interop.migrate.migration import PROPERTIES, run_kafkapy
from interop.support.kafka_process import KafkaProcess
from interop.support.waiting import wait_until
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from kafkapy.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tests.network.raw_client import RawClient
from tests.servers.kafkapy_process import KafkapyProcess

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

TOPIC: Final = "orders"
PARTITIONS: Final = 4
TIMEOUT_MS: Final = 20_000
CHECKED_OFTEN: Final = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
SESSIONS: Final = {
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
}


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaProcess]:
    """Apache Kafka 4.3.1 with a topic."""
    with KafkaProcess(tmp_path / "home", heap="512m", properties={**PROPERTIES, **SESSIONS}) as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        wait_until(lambda: TOPIC in admin.list_topics(timeout=30).topics)
        yield server


def take_over(
    kafka: KafkaProcess, folder: Path, settings: Mapping[str, str], *, killed: bool
) -> KafkapyProcess:
    """kafkapy in the place of Apache Kafka: with its directory, and at its address."""
    if killed:
        kafka.kill()
    else:
        kafka.stop()
    run_kafkapy("import", kafka.data, folder / "here" / "data")
    server = KafkapyProcess(folder / "here", properties={**PROPERTIES, **SESSIONS, **settings})
    server.bootstrap_servers = kafka.bootstrap_servers
    return server


# --- transactions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_open_transactions_that_kafka_left_are_ended_by_their_timeout(
    kafka: KafkaProcess, tmp_path: Path, killed: bool
) -> None:
    servers = kafka.bootstrap_servers
    open_one, open_two, committed = (
        Producer(
            {
                "bootstrap.servers": servers,
                "transactional.id": name,
                "transaction.timeout.ms": TIMEOUT_MS,
                "log_level": 0,
            }
        )
        for name in ("open-one", "open-two", "committed")
    )
    group = Consumer({"bootstrap.servers": servers, "group.id": "g", "log_level": 0})
    for producer, offset in ((committed, 7), (open_one, 99), (open_two, None)):
        producer.init_transactions(60)
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, f"{offset}", partition=partition)
        assert producer.flush(30) == 0
        if offset is not None:
            metadata = group.consumer_group_metadata()
            producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, offset)], metadata, 60)
    committed.commit_transaction(60)
    wait_until(lambda: state(servers, "committed") == "CompleteCommit")
    assert {state(servers, "open-one"), state(servers, "open-two")} == {"Ongoing"}
    stable = stable_ends(servers)

    with take_over(kafka, tmp_path, CHECKED_OFTEN, killed=killed):
        wait_until(lambda: state(servers, "open-one"), ignoring=AssertionError)
        wait_until(lambda: state(servers, "open-one") == "CompleteAbort", timeout=60)
        wait_until(lambda: state(servers, "open-two") == "CompleteAbort", timeout=60)
        assert state(servers, "committed") == "CompleteCommit"
        wait_until(lambda: all(now > then for now, then in zip(stable_ends(servers), stable, strict=True)))
        assert committed_values(servers) == {(partition, b"7") for partition in range(PARTITIONS)}
        (offset,) = group.committed([TopicPartition(TOPIC, 0)], 30)
        assert offset.offset == 7, "the offset of the aborted transaction is dropped"
        with pytest.raises(KafkaException):
            open_one.commit_transaction(30)
        again = Producer({"bootstrap.servers": servers, "transactional.id": "open-one"})
        again.init_transactions(60)
        again.begin_transaction()
        again.produce(TOPIC, "again", partition=0)
        again.commit_transaction(60)
        wait_until(lambda: (0, b"again") in committed_values(servers))
    group.close()


def state(servers: str, transactional_id: str) -> str:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    with RawClient(servers) as client:
        (found,) = client.ask(request, 0).transaction_states
    assert found.error_code == ErrorCode.NONE, found
    return str(found.transaction_state)


def stable_ends(servers: str) -> list[int]:
    admin = AdminClient({"bootstrap.servers": servers})
    asked = admin.list_offsets(
        {TopicPartition(TOPIC, partition): OffsetSpec.latest() for partition in range(PARTITIONS)},
        isolation_level=IsolationLevel.READ_COMMITTED,
    )
    return [found.result(30).offset for _, found in sorted(asked.items(), key=lambda item: item[0].partition)]


def committed_values(servers: str) -> set[tuple[int, bytes]]:
    """The partition and value of every committed record."""
    settings = {"bootstrap.servers": servers, "group.id": "reader", "enable.partition.eof": True}
    reader = Consumer({**settings, "isolation.level": "read_committed", "auto.offset.reset": "earliest"})
    reader.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    found, left = set(), set(range(PARTITIONS))
    while left:
        message = reader.poll(30)
        assert message is not None
        if message.error():
            left.discard(message.partition())
        else:
            found.add((message.partition(), message.value()))
    reader.close()
    return found


# --- groups -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_groups_of_the_consumer_protocol_go_on_without_a_rebalance(
    kafka: KafkaProcess, tmp_path: Path, killed: bool
) -> None:
    servers = kafka.bootstrap_servers
    groups = {"by-name": [TOPIC], "by-pattern": ["^ord.*"]}
    consumers = {
        (group, number): consumer(servers, group, f"{group}-{number}")
        for group in groups
        for number in range(2)
    }
    for (group, _), each in consumers.items():
        each.subscribe(groups[group])
    try:
        wait_until(lambda: all(shares(consumers, group) == [2, 2] for group in groups), timeout=60)
        wait_until(lambda: all(described(servers, group)[0] == "Stable" for group in groups), timeout=60)
        produce(servers, "before")
        read(consumers, "before")
        for each in consumers.values():
            each.commit(asynchronous=False)
        before = {group: described(servers, group) for group in groups}

        with take_over(kafka, tmp_path, {}, killed=killed):
            produce(servers, "after")
            read(consumers, "after")
            after = {group: described(servers, group) for group in groups}
            assert after == before, "epochs, members and assignments"
            consumers["by-name", 0].close()
            wait_until(lambda: shares(consumers, "by-name", but=0) == [PARTITIONS], timeout=60)
            joined = consumers["by-pattern", 2] = consumer(servers, "by-pattern", None)
            joined.subscribe(["^o.*s$"])
            wait_until(lambda: shares(consumers, "by-pattern") == [1, 1, 2], timeout=60)
    finally:
        for each in consumers.values():
            each.close()


def consumer(servers: str, group: str, instance: str | None) -> Consumer:
    settings: dict[str, Any] = {"bootstrap.servers": servers, "group.id": group, "group.protocol": "consumer"}
    if instance is not None:
        settings["group.instance.id"] = instance
    return Consumer(
        {**settings, "enable.auto.commit": False, "auto.offset.reset": "earliest", "log_level": 0}
    )


def shares(consumers: Mapping[tuple[str, int], Consumer], group: str, *, but: int = -1) -> list[int]:
    """The numbers of partitions that the members have."""
    members = [each for (of, number), each in consumers.items() if of == group and number != but]
    for each in members:
        each.poll(0.05)
    return sorted(len(each.assignment()) for each in members)


def described(servers: str, group: str) -> tuple[str, int, int, list[Any]]:
    """A group's state and epochs, and each member with its epoch, subscription and partitions."""
    found = DescribedGroup()

    def has_loaded() -> bool:
        nonlocal found
        with RawClient(servers) as client:
            (found,) = client.ask(ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups
        return bool(found.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    wait_until(has_loaded, timeout=60)
    assert found.error_code == ErrorCode.NONE, found
    members = [
        (
            each.member_id,
            each.instance_id,
            each.member_epoch,
            sorted(each.subscribed_topic_names),
            each.subscribed_topic_regex,
            sorted((topic.topic_name, *topic.partitions) for topic in each.assignment.topic_partitions),
            sorted(
                (topic.topic_name, *topic.partitions) for topic in each.target_assignment.topic_partitions
            ),
        )
        for each in found.members
    ]
    return found.group_state, found.group_epoch, found.assignment_epoch, sorted(members)


def produce(servers: str, text: str) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for partition in range(PARTITIONS):
        producer.produce(TOPIC, text, partition=partition)
    assert producer.flush(60) == 0


def read(consumers: Mapping[tuple[str, int], Consumer], text: str) -> None:
    """Poll until each group has read this text from every partition, once."""
    groups = {group for group, _ in consumers}
    found: list[tuple[str, int]] = []

    def all_read() -> bool:
        for (group, _), each in consumers.items():
            message = each.poll(0.05)
            if message is not None and not message.error():
                assert message.value() == text.encode()
                found.append((group, message.partition()))
        return len(found) >= len(groups) * PARTITIONS

    wait_until(all_read, timeout=60, pause=0)
    assert sorted(found) == sorted((group, number) for group in groups for number in range(PARTITIONS))
