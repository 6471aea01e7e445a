"""Snapshots of a running broker, resets to them, and forks."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

import kafkapy
from kafkapy.broker.snapshots import ROLLED_ABOVE
from tests.network.loop_watch import LIMIT, LoopWatch


@pytest.fixture
def broker() -> Iterator[kafkapy.Broker]:
    with kafkapy.Broker() as started:
        started.create_topics({"orders": 3})
        for number in range(30):
            started.produce("orders", key=str(number), value=f"order {number}")
        yield started


def values(broker: kafkapy.Broker, topic: str = "orders") -> set[bytes | None]:
    return {record.value for record in broker.records(topic)}


def topics(broker: kafkapy.Broker) -> set[str]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    return set(admin.list_topics(timeout=10).topics)


def files(path: Path) -> dict[Path, str]:
    return {each: hashlib.sha256(each.read_bytes()).hexdigest() for each in path.rglob("*") if each.is_file()}


def test_a_reset_brings_back_records_topics_and_settings(broker: kafkapy.Broker) -> None:
    before = broker.records("orders")
    with broker.snapshot() as snapshot:
        address, cluster_id = broker.bootstrap_servers, broker.core.cluster_id
        for _ in range(2):
            broker.produce("orders", value="later")
            broker.create_topics({"bills": 1})
            broker.reset(snapshot)
            assert broker.records("orders") == before
            assert topics(broker) == {"orders"}
        assert (broker.bootstrap_servers, broker.core.cluster_id) == (address, cluster_id)


def test_without_a_snapshot_a_reset_goes_back_to_the_start(broker: kafkapy.Broker) -> None:
    broker.reset()
    assert topics(broker) == set()
    with kafkapy.Broker(snapshot=broker.snapshot()) as other:
        other.create_topics({"bills": 1})
        other.reset()
        assert topics(other) == set()


def test_a_fork_lives_a_life_of_its_own(broker: kafkapy.Broker) -> None:
    with broker.fork() as fork:
        assert values(fork) == values(broker)
        assert fork.bootstrap_servers != broker.bootstrap_servers
        fork.produce("orders", value="in the fork")
        broker.produce("orders", value="in the original")
        assert b"in the original" not in values(fork)
        assert b"in the fork" not in values(broker)
        fork.reset()
        assert len(values(fork)) == 30


def test_committed_offsets_and_producers_are_in_a_snapshot(broker: kafkapy.Broker) -> None:
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    consumer = Consumer({**servers, "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    assert len(consumer.consume(30, timeout=20)) == 30
    consumer.commit(asynchronous=False)
    consumer.close()
    committed = broker.group("billing").committed("orders", 0, 1)
    with broker.snapshot() as snapshot, kafkapy.Broker(snapshot=snapshot) as other:
        assert other.group("billing").committed("orders", 0, 1) == committed
        other.group("billing").caught_up()


def test_an_open_transaction_can_be_ended_in_a_fork_and_in_the_original(broker: kafkapy.Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "billing-1"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("orders", value="in a transaction", partition=0)
    assert producer.flush(20) == 0
    with broker.fork() as fork:
        producer.commit_transaction(20)
        assert b"in a transaction" in values(broker)
        assert b"in a transaction" not in values(fork)
        again = Producer({"bootstrap.servers": fork.bootstrap_servers, "transactional.id": "billing-1"})
        again.init_transactions(20)
        again.begin_transaction()
        again.produce("orders", value="in another", partition=0)
        again.commit_transaction(20)
        assert b"in another" in values(fork)
        assert b"in a transaction" not in values(fork)


def test_a_snapshot_under_load_has_every_record_that_was_acknowledged_before(broker: kafkapy.Broker) -> None:
    """All partitions are of one moment: no record is there without all that are older."""
    acknowledged: list[int] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            producer.produce("orders", value=str(number).ljust(5_000), partition=number % 3)
            if producer.flush(20) == 0:
                acknowledged.append(number)
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            wanted = len(acknowledged) + 50
            while len(acknowledged) < wanted:
                time.sleep(0.001)
            known = acknowledged[-1]
            with broker.snapshot() as snapshot, kafkapy.Broker(snapshot=snapshot) as other:
                found = {int(value or b"-1") for value in values(other) if value and value.strip().isdigit()}
                assert found == set(range(max(found) + 1))
                assert max(found) >= known
    finally:
        stop.set()
        writer.join()


def test_a_snapshot_stays_as_it_is_whatever_becomes_of_the_broker(
    broker: kafkapy.Broker, tmp_path: Path
) -> None:
    for _ in range(3):
        broker.produce("orders", value="x" * 100_000, partition=0)
    snapshot = broker.snapshot(tmp_path / "kept")
    linked = [path for path in files(snapshot.path) if path.stat().st_nlink > 1]
    assert any(path.suffix == ".log" and path.stat().st_size > ROLLED_ABOVE for path in linked)
    before = files(snapshot.path)
    broker.produce("orders", value="later", partition=0)
    broker.kill()
    broker.start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics(["orders"])["orders"].result(10)
    broker.reset(snapshot)
    broker.produce("orders", value="later", partition=0)
    broker.stop()
    assert files(snapshot.path) == before
    snapshot.close()
    assert files(snapshot.path) == before


def test_a_snapshot_goes_when_it_is_closed_or_forgotten(broker: kafkapy.Broker) -> None:
    with broker.snapshot() as snapshot:
        path = snapshot.path
        assert path.is_dir()
    assert not path.exists()
    with pytest.raises(kafkapy.SnapshotError, match="is gone: it was closed"):
        broker.reset(snapshot)
    assert len(values(broker)) == 30
    path = broker.snapshot().path
    assert not path.exists()


def test_a_path_that_exists_is_refused(broker: kafkapy.Broker, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(kafkapy.SnapshotError, match=r"there cannot be written: .*exists"):
        broker.snapshot(tmp_path / "there")
    with pytest.raises(kafkapy.SnapshotError, match="is no snapshot: expected a directory"):
        kafkapy.Broker(snapshot=tmp_path / "there")


def test_a_running_directory_is_no_snapshot(broker: kafkapy.Broker) -> None:
    with pytest.raises(kafkapy.SnapshotError, match="in use by a running broker"):
        kafkapy.Broker(snapshot=broker.core.config.log_dirs[0]).start()


def test_a_broker_on_earlier_data_is_reset_to_snapshots_only(tmp_path: Path) -> None:
    with kafkapy.Broker(data_dir=tmp_path / "data") as broker:
        broker.create_topics({"orders": 1})
    (tmp_path / "data" / "notes").write_text("mine")
    with kafkapy.Broker(data_dir=tmp_path / "data") as broker:
        with pytest.raises(kafkapy.SnapshotError, match="take a snapshot first"):
            broker.reset()
        assert topics(broker) == {"orders"}
        with broker.snapshot() as snapshot:
            broker.create_topics({"bills": 1})
            broker.reset(snapshot)
            assert topics(broker) == {"orders"}
    assert (tmp_path / "data" / "notes").read_text() == "mine"
    with pytest.raises(kafkapy.SnapshotError, match="is not empty"):
        kafkapy.Broker(data_dir=tmp_path / "data", snapshot=tmp_path / "data").start()


def test_a_reset_switches_faults_off(broker: kafkapy.Broker) -> None:
    broker.faults.produce(topic="orders").error("NOT_LEADER_OR_FOLLOWER")
    broker.reset()
    assert len(broker.faults) == 0


def test_a_broker_of_a_cluster_is_refused() -> None:
    with kafkapy.Cluster(brokers=1) as cluster:
        with pytest.raises(kafkapy.SnapshotError, match="a broker that is alone"):
            cluster[1].snapshot()
        with pytest.raises(kafkapy.SnapshotError, match="make a new cluster"):
            cluster[1].reset()


async def test_the_async_twin_has_them_too() -> None:
    async with kafkapy.AsyncBroker() as broker:
        await broker.produce("orders", value="one")
        with await broker.snapshot() as snapshot:
            await broker.produce("orders", value="two")
            async with await broker.fork() as fork:
                await broker.reset(snapshot)
                assert [record.value for record in await broker.records("orders")] == [b"one"]
                assert len(await fork.records("orders")) == 2


def test_a_snapshot_of_many_partitions_does_not_hold_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = LoopWatch(monkeypatch)
    with watch.broker(tmp_path) as broker:
        broker.create_topics({"orders": 1000})
        for partition in range(1000):
            broker.produce("orders", value="x", partition=partition)
        watch.check_each(lambda: broker.snapshot().close(), "a snapshot: ")
        assert watch.longest[0] < LIMIT


def test_clients_that_are_open_over_a_reset_go_on(broker: kafkapy.Broker) -> None:
    servers = {"bootstrap.servers": broker.bootstrap_servers, "reconnect.backoff.max.ms": 100}
    producer = Producer({**servers, "enable.idempotence": True})
    consumer = Consumer({**servers, "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    with broker.snapshot() as snapshot:
        assert len(consumer.consume(30, timeout=20)) == 30
        producer.produce("orders", value="lost", partition=0)
        assert producer.flush(20) == 0
        broker.reset(snapshot)
        errors: list[KafkaError | None] = []
        producer.produce(
            "orders", value="after", partition=0, on_delivery=lambda error, _: errors.append(error)
        )
        assert producer.flush(30) == 0
        assert errors == [None]
        assert b"after" in values(broker)
        assert b"lost" not in values(broker)
        found: set[bytes | None] = set()
        deadline = time.monotonic() + 30
        while b"after" not in found and time.monotonic() < deadline:
            found |= {record.value() for record in consumer.consume(100, timeout=1) if record.error() is None}
        assert b"after" in found
    consumer.close()
