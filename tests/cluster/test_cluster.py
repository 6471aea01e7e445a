"""Clusters of brokers in one process, used by a stock client while brokers come and go."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer, ElectionType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import kafkapy
from kafkapy.broker import cluster_member
from kafkapy.broker.core import BrokerCore, StartError
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.store import StoreClosedError
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.update_metadata import UpdateMetadataRequest
from kafkapy.storage.log.flush import FlushTicket
from kafkapy.storage.log.partition_log import PartitionLog
from tests.network.raw_client import RawClient

T = TypeVar("T")
QUIET = {"log_level": 0}


@pytest.fixture
def cluster() -> Iterator[kafkapy.Cluster]:
    with kafkapy.Cluster(brokers=3) as started:
        yield started


def wait_until(
    condition: Callable[[], T], *, ignoring: type[Exception] | tuple[type[Exception], ...] = ()
) -> T:
    """The first true answer of `condition`; fails after half a minute without one."""
    deadline = time.monotonic() + 30
    while True:
        with contextlib.suppress(*([ignoring] if isinstance(ignoring, type) else ignoring)):
            answer = condition()
            if answer:
                return answer
        assert time.monotonic() < deadline
        time.sleep(0.02)


def admin(cluster: kafkapy.Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})


def create(cluster: kafkapy.Cluster, topic: str, partitions: int = 3, replicas: int = 3) -> None:
    client = admin(cluster)
    client.create_topics([NewTopic(topic, partitions, replicas)])[topic].result()


def partitions(cluster: kafkapy.Cluster, topic: str) -> dict[int, Any]:
    return dict(admin(cluster).list_topics(topic, timeout=10).topics[topic].partitions)


def wait_until_in_sync(cluster: kafkapy.Cluster, topic: str, replicas: int = 3) -> None:
    wait_until(
        lambda: (
            all(len(each.isrs) == replicas for each in partitions(cluster, topic).values())
            and partitions(cluster, topic)
        )
    )


def produce(cluster: kafkapy.Cluster, topic: str, numbers: range, **settings: Any) -> None:
    """Produce records that say where they stand in their partition; all must be acknowledged."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, **QUIET, **settings}
    )
    failures: list[Any] = []
    for number in numbers:
        for partition in range(3):
            producer.produce(
                topic,
                b"%d" % number,
                partition=partition,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert failures == []


def read(servers: str, topic: str, partition: int, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", **QUIET})
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        messages: list[bytes] = []
        while len(messages) < count:
            found = consumer.consume(count - len(messages), timeout=10)
            assert found, f"{len(messages)} of {count} records"
            messages += [value for message in found if (value := message.value()) is not None]
        return messages
    finally:
        consumer.close()


def logs(cluster: kafkapy.Cluster, topic: str, partition: int) -> list[bytes]:
    """The files of the replicas of a partition."""
    found = []
    for broker in cluster:
        folder = cluster[broker].core.config.log_dirs[0] / f"{topic}-{partition}"
        found.append(b"".join(path.read_bytes() for path in sorted(folder.glob("*.log"))))
    return found


def wait_until_equal(cluster: kafkapy.Cluster, topic: str, partition: int) -> None:
    """Wait until the replicas of a partition are the same byte for byte."""
    wait_until(lambda: len(set(logs(cluster, topic, partition))) == 1)


def test_brokers_elect_a_controller_and_replicate(cluster: kafkapy.Cluster) -> None:
    create(cluster, "orders")
    wait_until_in_sync(cluster, "orders")
    assert {each.leader for each in partitions(cluster, "orders").values()} == {1, 2, 3}
    produce(cluster, "orders", range(100))
    for partition in range(3):
        assert read(cluster.bootstrap_servers, "orders", partition, 100) == [b"%d" % n for n in range(100)]
        wait_until_equal(cluster, "orders", partition)
        assert logs(cluster, "orders", partition)[0]


def test_each_broker_knows_all_when_the_cluster_has_started() -> None:
    """So a topic with as many replicas can be created at once, also at a broker that is busy."""

    async def be_busy(core: BrokerCore) -> None:
        asyncio.get_running_loop().call_soon(time.sleep, 2)

    with kafkapy.Cluster(brokers=2) as cluster:
        cluster.kill(2)
        cluster[1].call(be_busy)
        cluster.start(2)
        known = {broker: set(cluster[broker].core.metadata.image.brokers) for broker in cluster}
    assert known == {1: {1, 2}, 2: {1, 2}}


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_every_broker_in_turn_goes_and_comes_back(cluster: kafkapy.Cluster, end: str) -> None:
    create(cluster, "orders")
    wait_until_in_sync(cluster, "orders")
    numbers = itertools.count()
    for broker in (1, 2, 3, 1):
        produce(cluster, "orders", range(start := next(numbers) * 100, start + 50))
        getattr(cluster, end)(broker)
        produce(cluster, "orders", range(start + 50, start + 100))
        assert broker not in {each.leader for each in partitions(cluster, "orders").values()}
        cluster.start(broker)
        wait_until_in_sync(cluster, "orders")
    expected = [b"%d" % number for number in range(400)]
    for partition in range(3):
        assert read(cluster.bootstrap_servers, "orders", partition, 400) == expected
        wait_until_equal(cluster, "orders", partition)


def test_the_data_outlive_the_cluster(tmp_path: Path) -> None:
    with kafkapy.Cluster(brokers=3, data_dir=tmp_path) as cluster:
        create(cluster, "orders")
        produce(cluster, "orders", range(10))
        cluster_id = cluster[1].core.cluster_id
    with kafkapy.Cluster(brokers=3, data_dir=tmp_path) as cluster:
        assert cluster[2].core.cluster_id == cluster_id
        wait_until_in_sync(cluster, "orders")
        assert read(cluster.bootstrap_servers, "orders", 0, 10) == [b"%d" % number for number in range(10)]


def test_a_broker_without_its_disk_does_not_take_the_records_of_others_with_it(tmp_path: Path) -> None:
    with kafkapy.Cluster(brokers=3, data_dir=tmp_path) as cluster:
        create(cluster, "orders")
        wait_until_in_sync(cluster, "orders")
        produce(cluster, "orders", range(10))
        cluster.kill(1)
        cluster.kill(3)
        wait_until(lambda: all(each.isrs == [2] for each in partitions(cluster, "orders").values()))
        cluster.kill(2)
        shutil.rmtree(tmp_path / "broker-2")
        for _ in range(2):
            with pytest.raises(StartError, match="nothing is there, but broker 2 was in sync for orders-0"):
                cluster.start(2)
        cluster.start(1)
        cluster.start(3)
        wait_until(lambda: {each.leader for each in partitions(cluster, "orders").values()} == {-1})
        client = admin(cluster)
        elected = client.elect_leaders(ElectionType.UNCLEAN, None).result()
        assert set(elected.values()) == {None}
        cluster.start(2)
        wait_until_in_sync(cluster, "orders")
        expected = [b"%d" % number for number in range(10)]
        for partition in range(3):
            assert read(cluster.bootstrap_servers, "orders", partition, 10) == expected


def test_a_leader_without_its_followers_acknowledges_nothing(cluster: kafkapy.Cluster) -> None:
    create(cluster, "orders", 1)
    wait_until_in_sync(cluster, "orders")
    leader = partitions(cluster, "orders")[0].leader
    others = sorted({1, 2, 3} - {leader})
    for other in others:
        cluster.partition(leader, other)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "message.timeout.ms": 1500, **QUIET})
    errors: list[Any] = []
    producer.produce("orders", b"cut off", on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    assert [error.name() for error in errors] == ["_MSG_TIMED_OUT"]
    cluster.heal()
    wait_until_in_sync(cluster, "orders")


def test_another_replica_leads_when_the_leaders_log_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    with kafkapy.Cluster(brokers=3, config={"durability": "fsync"}) as cluster:
        create(cluster, "orders")
        wait_until_in_sync(cluster, "orders")
        leader = partitions(cluster, "orders")[0].leader
        damaged = cluster[leader].core.replicas.partition("orders", 0).log
        prepare = PartitionLog.prepare_flush

        def prepare_flush(log: PartitionLog) -> FlushTicket | None:
            if log is damaged:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the log is damaged")
            return prepare(log)

        monkeypatch.setattr(PartitionLog, "prepare_flush", prepare_flush)
        produce(cluster, "orders", range(10), **{"delivery.timeout.ms": 20_000})
        assert partitions(cluster, "orders")[0].leader != leader
        cluster.stop(leader)
        monkeypatch.undo()
        cluster.start(leader)
        wait_until_in_sync(cluster, "orders")
        wait_until_equal(cluster, "orders", 0)


def test_a_broker_stops_soon_while_the_metadata_store_is_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(EmbeddedStore, "is_connected", False)
    with kafkapy.Cluster(brokers=2, config={"controlled.shutdown.retry.backoff.ms": 60_000}) as cluster:
        cluster.partition(1, 2)
        cluster.stop(2)
        assert "The broker stops without a hand-over" in caplog.text
        cluster.heal()


def test_a_request_that_needs_the_metadata_store_is_dropped_when_the_broker_stops(
    cluster: kafkapy.Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def get(*_: object) -> None:
        raise StoreClosedError("The session with ZooKeeper is closed.")

    of_a_new_controller = UpdateMetadataRequest(controller_epoch=1_000)
    with RawClient(cluster[1].bootstrap_servers) as client, monkeypatch.context() as patch:
        patch.setattr(EmbeddedStore, "get", get)
        with pytest.raises(ConnectionError):
            client.ask(of_a_new_controller, 8)
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


def test_a_broker_that_stops_tells_its_clients_who_leads_now(
    cluster: kafkapy.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the old leader is gone first, librdkafka looks for another one only once a second."""
    monkeypatch.setattr(cluster_member, "TOLD_SECONDS", 2.0)  # this client may be late on a busy machine
    create(cluster, "orders")
    wait_until_in_sync(cluster, "orders")
    leader = partitions(cluster, "orders")[0].leader
    end = ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    orders = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])

    def is_refused() -> bool:
        (topic,) = client.ask(ListOffsetsRequest(replica_id=-1, topics=[end]), 5).topics
        code = ErrorCode(topic.partitions[0].error_code)
        assert code in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def shows_another() -> bool:
        (topic,) = client.ask(orders, 9).topics
        leaders = {each.partition_index: each.leader_id for each in topic.partitions}
        return leaders[0] not in (-1, leader)

    with RawClient(cluster[leader].bootstrap_servers) as client:
        stopping = threading.Thread(target=cluster.stop, args=(leader,))
        stopping.start()
        wait_until(is_refused)
        wait_until(shows_another)
        stopping.join()


def test_a_group_moves_with_its_coordinator(cluster: kafkapy.Cluster) -> None:
    create(cluster, "orders")
    produce(cluster, "orders", range(10))
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **QUIET,
        }
    )
    try:
        consumer.subscribe(["orders"])
        values = [wait_until(lambda: consumer.poll(1)).value() for _ in range(30)]
        assert len(values) == 30
        consumer.commit(asynchronous=False)
        wait_until_in_sync(cluster, "__consumer_offsets")
        client = admin(cluster)
        described = client.describe_consumer_groups(["readers"])["readers"].result()
        cluster.kill(described.coordinator.id)

        def committed() -> list[int]:
            return [each.offset for each in consumer.committed(consumer.assignment(), timeout=5)]

        assert wait_until(committed, ignoring=KafkaException) == [10, 10, 10]
    finally:
        consumer.close()


def test_a_topic_is_deleted_on_all_brokers(cluster: kafkapy.Cluster) -> None:
    create(cluster, "orders")
    produce(cluster, "orders", range(10))
    cluster.kill(2)
    client = admin(cluster)
    client.delete_topics(["orders"])["orders"].result()
    cluster.start(2)
    wait_until(
        lambda: (
            not any(
                path.name.startswith("orders-") and not path.name.endswith("-delete")
                for broker in (1, 2, 3)
                for path in cluster[broker].core.config.log_dirs[0].iterdir()
            )
        )
    )
    create(cluster, "orders", 1)


def test_a_cluster_that_has_an_outage_comes_back_with_its_data_at_its_ports() -> None:
    with kafkapy.Cluster(brokers=2) as cluster:
        servers = cluster.bootstrap_servers
        create(cluster, "t", 1, replicas=2)
        cluster.stop()
        assert list(cluster) == []
        cluster.start()
        assert cluster.bootstrap_servers == servers
        assert set(partitions(cluster, "t")) == {0}


def test_ids_begin_where_they_are_told_to() -> None:
    with kafkapy.Cluster(brokers=2, first_id=0) as cluster:
        assert list(cluster) == [0, 1]
        assert set(admin(cluster).list_topics(timeout=10).brokers) == {0, 1}
        cluster.kill(0)
        assert list(cluster) == [1]
        with pytest.raises(ValueError, match="no broker 2: expected 0 to 1"):
            cluster.stop(2)


def test_ports_that_make_no_sense_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "ports.json").write_text("[9092]")
    with pytest.raises(kafkapy.ConfigError, match=r"ports\.json: expected the ports of brokers, such as"):
        kafkapy.Cluster(brokers=2, data_dir=tmp_path).start()


@pytest.mark.parametrize(("call", "broker"), [("start", 4), ("stop", 0), ("kill", -1)])
def test_a_broker_that_the_cluster_does_not_have_is_refused(call: str, broker: int) -> None:
    with pytest.raises(ValueError, match=f"no broker {broker}: expected 1 to 3"):
        getattr(kafkapy.Cluster(brokers=3), call)(broker)


def test_a_broker_is_not_cut_off_from_itself() -> None:
    with pytest.raises(ValueError, match="broker 1 cannot be cut off from itself: expected two brokers"):
        kafkapy.Cluster(brokers=3).partition(1, 1)


def test_a_cluster_has_a_broker() -> None:
    with pytest.raises(ValueError, match="expected 1 or more"):
        kafkapy.Cluster(brokers=0)
