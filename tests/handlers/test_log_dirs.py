"""Partitions move between the log directories of a running broker.

A directory fails under it.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Assigned
from confluent_kafka.admin import AdminClient, NewTopic

import kafkapy
from kafkapy.broker.core import BrokerCore
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkapy.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kafkapy.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkapy.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkapy.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.network.raw_client import RawClient, eventually

DIRS = ("one", "two", "three")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[kafkapy.Broker]:
    dirs = ",".join(str(tmp_path / name) for name in DIRS)
    with kafkapy.Broker(config={"log.dirs": dirs, "durability": "fsync"}) as broker:
        yield broker


@pytest.fixture
def client(broker: kafkapy.Broker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as client:
        yield client


def create(broker: kafkapy.Broker, name: str, partitions: int = 1, **config: str) -> None:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    (created,) = admin.create_topics([NewTopic(name, partitions, 1, config=settings)]).values()
    created.result(10)


def produce(broker: kafkapy.Broker, topic: str, count: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for index in range(count):
        producer.produce(topic, b"%d" % index, partition=partition)
    assert producer.flush(10) == 0


def consumed(broker: kafkapy.Broker, topic: str, count: int, partition: int = 0) -> list[int]:
    settings = {"group.id": "unused", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    try:
        consumer.assign([Assigned(topic, partition, 0)])
        messages: list[Any] = []
        deadline = time.monotonic() + 10
        while len(messages) < count and time.monotonic() < deadline:
            messages += consumer.consume(count - len(messages), 0.5)
        return [int(message.value()) for message in messages]
    finally:
        consumer.close()


def move(client: RawClient, to: str | Path, *partitions: tuple[str, int], version: int = 2) -> list[int]:
    """The error codes."""
    topics = [AlterReplicaLogDirTopic(name=name, partitions=[index]) for name, index in partitions]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(to), topics=topics)])
    response = client.ask(request, version)
    return [each.error_code for topic in response.results for each in topic.partitions]


def found(client: RawClient, version: int = 4) -> dict[tuple[str, int, bool], str]:
    """The names of the directories that hold each partition, and each copy (True)."""
    response = client.ask(DescribeLogDirsRequest(topics=None), version)
    return {
        (topic.name, each.partition_index, each.is_future_key): Path(result.log_dir).name
        for result in response.results
        for topic in result.topics
        for each in topic.partitions
    }


def moved(client: RawClient, topic: str, partition: int, to: str) -> bool:
    logs = found(client)
    return logs.get((topic, partition, False)) == to and (topic, partition, True) not in logs


# --- moving ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_partition_moves_with_its_records(
    broker: kafkapy.Broker, client: RawClient, tmp_path: Path, version: int
) -> None:
    create(broker, "events")
    produce(broker, "events", 2000)
    source = found(client)["events", 0, False]
    target = next(name for name in DIRS if name != source)
    assert move(client, tmp_path / target, ("events", 0), version=version) == [ErrorCode.NONE]
    eventually(lambda: moved(client, "events", 0, target), "the move")
    produce(broker, "events", 3)
    assert consumed(broker, "events", 2003) == [*range(2000), 0, 1, 2]
    assert (tmp_path / target / "events-0").is_dir()
    assert not (tmp_path / source / "events-0").exists()


def test_committed_offsets_move_along(tmp_path: Path) -> None:
    config = {"log.dirs": ",".join(str(tmp_path / name) for name in DIRS)}
    with kafkapy.Broker(config=config) as broker, RawClient(broker.bootstrap_servers) as client:
        create(broker, "events")
        commit(broker, "events", 3)
        source = found(client)["__consumer_offsets", 0, False]
        target = next(name for name in DIRS if name != source)
        assert move(client, tmp_path / target, ("__consumer_offsets", 0)) == [ErrorCode.NONE]
        eventually(lambda: moved(client, "__consumer_offsets", 0, target), "the move")
        assert committed(broker, "events") == 3
        commit(broker, "events", 5)
    with kafkapy.Broker(config=config) as broker:
        assert committed(broker, "events") == 5


def commit(broker: kafkapy.Broker, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
    consumer.commit(offsets=[Assigned(topic, 0, offset)], asynchronous=False)
    consumer.close()


def committed(broker: kafkapy.Broker, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
    try:
        (found,) = consumer.committed([Assigned(topic, 0)], timeout=10)
        return int(found.offset)
    finally:
        consumer.close()


def test_new_partitions_go_where_the_fewest_are(broker: kafkapy.Broker, client: RawClient) -> None:
    create(broker, "events", 7)
    places = [found(client)["events", index, False] for index in range(7)]
    assert sorted(places.count(name) for name in DIRS) == [2, 2, 3]


def test_a_partition_that_is_to_come_goes_where_it_was_told(
    broker: kafkapy.Broker, client: RawClient, tmp_path: Path
) -> None:
    create(broker, "filler")
    for partition in range(2):
        codes = move(client, tmp_path / "one", ("events", partition))
        assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    create(broker, "events", 2)
    assert [found(client)["events", partition, False] for partition in range(2)] == ["one", "one"]


def test_what_cannot_be_moved_is_refused_each_on_its_own(
    broker: kafkapy.Broker, client: RawClient, tmp_path: Path
) -> None:
    create(broker, "t" * 230)
    create(broker, "events")
    assert move(client, tmp_path / "four", ("events", 0)) == [ErrorCode.LOG_DIR_NOT_FOUND]
    assert move(client, "", ("events", 0)) == [ErrorCode.LOG_DIR_NOT_FOUND]
    codes = move(client, tmp_path / "two", ("t" * 230, 0), ("events", 0), ("../x", 0), ("events", 9))
    assert sorted(codes) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    eventually(lambda: moved(client, "events", 0, "two"), "the move")


def test_reassignments_to_the_one_broker_change_nothing(broker: kafkapy.Broker, client: RawClient) -> None:
    create(broker, "events")
    wanted: list[tuple[int, list[int] | None, ErrorCode]] = [
        (0, [1], ErrorCode.NONE),
        (0, [2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (3, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    partitions = [ReassignablePartition(partition_index=n, replicas=to) for n, to, _ in wanted]
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="events", partitions=partitions)]
    )
    for version in (0, 1):
        (topic,) = client.ask(request, version).responses
        assert [each.error_code for each in topic.partitions] == [code for *_, code in wanted]
    listed = client.ask(ListPartitionReassignmentsRequest(topics=None), 0)
    assert (listed.error_code, listed.topics) == (ErrorCode.NONE, [])


# --- records that are deleted ------------------------------------------------------------------------------


def test_records_are_deleted_as_in_kafka(broker: kafkapy.Broker, client: RawClient) -> None:
    create(broker, "events", 2)
    create(broker, "compacted", cleanup_policy="compact")
    create(broker, "both", cleanup_policy="compact,delete")
    produce(broker, "events", 10)
    wanted = [
        ("events", 0, 4, (ErrorCode.NONE, 4)),
        ("events", 0, 2, (ErrorCode.NONE, 4)),
        ("events", 0, 11, (ErrorCode.OFFSET_OUT_OF_RANGE, -1)),
        ("events", 0, -2, (ErrorCode.OFFSET_OUT_OF_RANGE, -1)),
        ("events", 0, -1, (ErrorCode.NONE, 10)),
        ("events", 1, -1, (ErrorCode.NONE, 0)),
        ("events", 2, 0, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)),
        ("nothing", 0, 0, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)),
        ("compacted", 0, 0, (ErrorCode.POLICY_VIOLATION, -1)),
        ("both", 0, -1, (ErrorCode.NONE, 0)),
    ]
    for name, index, offset, expected in wanted:
        partition = DeleteRecordsPartition(partition_index=index, offset=offset)
        topic = DeleteRecordsTopic(name=name, partitions=[partition])
        (answered,) = client.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=1000), 2).topics
        (result,) = answered.partitions
        assert (result.error_code, result.low_watermark) == expected, (name, index, offset)


def test_a_clean_stop_keeps_the_log_start_offset(tmp_path: Path) -> None:
    with kafkapy.Broker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        create(broker, "events")
        produce(broker, "events", 10)
        partition = DeleteRecordsPartition(partition_index=0, offset=4)
        topic = DeleteRecordsTopic(name="events", partitions=[partition])
        client.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=1000), 2)
    with kafkapy.Broker(data_dir=tmp_path) as broker:
        assert consumed(broker, "events", 6) == [4, 5, 6, 7, 8, 9]


# --- failing directories -----------------------------------------------------------------------------------


def fail(broker: kafkapy.Broker, name: str) -> None:
    """The disk under a log directory is gone."""

    async def failing(core: BrokerCore) -> None:
        for directory in core.logs.directories:
            if directory.path.endswith("/" + name):
                directory.failed("testing", OSError(errno.EIO, "the disk is gone"))

    broker.call(failing)


def offset_error(client: RawClient, topic: str, partition: int) -> int:
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
    code: int = client.ask(request, 5).topics[0].partitions[0].error_code
    return code


def test_a_failed_directory_takes_only_its_partitions_along(
    broker: kafkapy.Broker, client: RawClient, tmp_path: Path
) -> None:
    create(broker, "events", 3)
    for partition in range(3):
        produce(broker, "events", 5, partition)
    lost = next(n for n in range(3) if found(client)["events", n, False] == "two")
    kept = [partition for partition in range(3) if partition != lost]
    fail(broker, "two")
    eventually(lambda: offset_error(client, "events", lost) == ErrorCode.KAFKA_STORAGE_ERROR, "offline")
    (topic,) = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="events")]), 12).topics
    shown = {each.partition_index: each for each in topic.partitions}
    assert (shown[lost].error_code, shown[lost].leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert (shown[lost].offline_replicas, shown[lost].replica_nodes) == ([1], [1])
    assert [(shown[n].error_code, shown[n].offline_replicas) for n in kept] == [(0, []), (0, [])]
    for partition in kept:
        produce(broker, "events", 1, partition)
        assert consumed(broker, "events", 6, partition) == [0, 1, 2, 3, 4, 0]
    results = {Path(r.log_dir).name: r for r in client.ask(DescribeLogDirsRequest(topics=None), 4).results}
    assert results["two"].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert results["two"].topics == []
    assert results["one"].error_code == results["three"].error_code == 0
    assert move(client, tmp_path / "one", ("events", lost)) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert move(client, tmp_path / "two", ("events", kept[0])) == [ErrorCode.KAFKA_STORAGE_ERROR]
    create(broker, "more", 4)
    assert {found(client)["more", n, False] for n in range(4)} == {"one", "three"}


def test_a_directory_that_cannot_be_used_at_the_start_leaves_the_others(tmp_path: Path) -> None:
    dirs = {"log.dirs": ",".join(str(tmp_path / name) for name in DIRS)}
    with kafkapy.Broker(config=dirs) as broker, RawClient(broker.bootstrap_servers) as client:
        create(broker, "events", 3)
        for partition in range(3):
            produce(broker, "events", 5, partition)
        places = {found(client)["events", n, False]: n for n in range(3)}
    (tmp_path / "two").rename(tmp_path / "away")
    (tmp_path / "two").write_text("no directory")
    with kafkapy.Broker(config=dirs) as broker, RawClient(broker.bootstrap_servers) as client:
        assert offset_error(client, "events", places["two"]) == ErrorCode.KAFKA_STORAGE_ERROR
        assert consumed(broker, "events", 5, places["three"]) == list(range(5))
        create(broker, "more", 2)
    (tmp_path / "two").unlink()
    (tmp_path / "away").rename(tmp_path / "two")
    with kafkapy.Broker(config=dirs) as broker:
        assert consumed(broker, "events", 5, places["two"]) == list(range(5))


def test_a_broker_whose_last_directory_fails_has_failed(broker: kafkapy.Broker, client: RawClient) -> None:
    create(broker, "events", 3)
    for name in DIRS:
        assert not broker.core.failed.is_set()
        fail(broker, name)
    eventually(broker.core.failed.is_set, "the failure")
    assert [offset_error(client, "events", n) for n in range(3)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 3
