"""Brokers that replicate on ZooKeeper lose no acknowledged record when their sessions end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from interop.support.waiting import wait_until
from interop.support.watermarks import watermarks
from interop.support.zookeeper_process import ZooKeeperProcess
from kafkapy import Broker
from kafkapy.metadata.zookeeper import ZooKeeperStore

BROKERS = (1, 2, 3)


class Load:
    """A producer that waits for every record to be acknowledged by all in-sync replicas."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "acks": "all", "enable.idempotence": "true"}
        )
        self.acknowledged: list[int] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            self._producer.produce("t", str(number).encode(), on_delivery=self._delivered(number))
            self._producer.flush(1)
            number += 1
        self._producer.flush(60)

    def _delivered(self, number: int) -> Callable[[object, object], None]:
        def note(error: object, _message: object) -> None:
            if error is None:
                self.acknowledged.append(number)

        return note

    def goes_on(self) -> None:
        """Wait until more records are acknowledged."""
        count = len(self.acknowledged)
        wait_until(lambda: len(self.acknowledged) > count + 5, timeout=60)


@pytest.fixture
def server(zookeeper: ZooKeeperProcess, tmp_path: Path) -> Iterator[ZooKeeperProcess]:
    """A ZooKeeper that may be stopped."""
    with ZooKeeperProcess(tmp_path / "zookeeper") as process:
        yield process


@pytest.fixture
def brokers(server: ZooKeeperProcess, tmp_path: Path) -> Iterator[list[Broker]]:
    settings = {
        "zookeeper.connect": f"{server.bootstrap_servers}/kafka",
        "zookeeper.session.timeout.ms": 6000,
        "min.insync.replicas": 2,
    }
    with ExitStack() as running:
        yield [
            running.enter_context(
                Broker(config={**settings, "broker.id": number}, data_dir=tmp_path / str(number))
            )
            for number in BROKERS
        ]


def expire(broker: Broker) -> int:
    """End a broker's session as ZooKeeper does; return the session."""
    store = broker.core.store
    assert isinstance(store, ZooKeeperStore)
    session = store.session_id
    hosts = ",".join(f"{host}:{port}" for host, port in store._client.hosts)
    double = KazooClient(hosts, client_id=store._client.client_id)
    double.start()
    double.stop()
    double.close()
    return session


def test_acknowledged_records_outlive_sessions_and_zookeeper(
    brokers: list[Broker], server: ZooKeeperProcess
) -> None:
    bootstrap = ",".join(broker.bootstrap_servers for broker in brokers)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("t", 1, 3)])["t"].result(60)
    by_id = dict(zip(BROKERS, brokers, strict=True))
    with Load(bootstrap) as load:
        load.goes_on()
        image = brokers[0].core.metadata.image
        leader, controller = image.topics["t"].partitions[0].leader, image.controller_id
        for number in dict.fromkeys((leader, controller)):
            session = expire(by_id[number])
            wait_until(lambda number=number, session=session: by_id[number].core.store.session_id != session)  # type: ignore[misc]
            load.goes_on()
        server.kill()
        server.start()
        load.goes_on()
        wait_until(
            lambda: all(len(broker.core.metadata.image.brokers) == 3 for broker in brokers), timeout=60
        )
        load.goes_on()
    assert read_all(bootstrap) >= set(load.acknowledged)
    images = [broker.core.metadata.image for broker in brokers]
    assert len({image.controller_id for image in images}) == 1


def read_all(bootstrap: str) -> set[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": "false"})
    partition = TopicPartition("t", 0, 0)
    consumer.assign([partition])
    _, end = watermarks(consumer, partition)
    found: set[int] = set()
    try:
        while consumer.position([partition])[0].offset < end:
            for message in consumer.consume(1000, timeout=5):
                assert message.error() is None
                found.add(int(message.value()))
    finally:
        consumer.close()
    return found
