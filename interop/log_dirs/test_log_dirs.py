"""Stock tools move partitions between log directories while a client writes and reads them."""

from __future__ import annotations

import contextlib
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from interop.confluent_kafka.client import consume
from interop.java_tools.tools import tool, write_json
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import kafka_jars
from interop.support.waiting import wait_until
from tests.servers.kafkapy_process import KafkapyProcess

DIRS = ("one", "two")

KILLS = int(os.environ.get("KAFKAPY_KILLS", "3"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[KafkapyProcess]:
    dirs = ",".join(str(tmp_path / "kafkapy" / name) for name in DIRS)
    server = KafkapyProcess(tmp_path / "kafkapy")
    server.data = Path(dirs)
    with server:
        yield server


@pytest.fixture(scope="module")
def java() -> None:
    with skipped_without_jars():
        kafka_jars()


class Load:
    """A producer that numbers its records, until it is stopped."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.acknowledged: list[int] = []
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 1}
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(0.001):
            for _ in range(5):
                self._producer.produce(self._topic, b"%d" % number, partition=0, on_delivery=self._delivered)
                number += 1
            self._producer.poll(0)
        assert self._producer.flush(30) == 0

    def _delivered(self, error: object, message: Any) -> None:
        assert error is None, error
        self.acknowledged.append(int(message.value()))


def create(server: KafkapyProcess, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(10)


def directory_of(server: KafkapyProcess, topic: str, partition: int) -> Path:
    """Where the partition lies, without its copy."""
    # While a copy takes over, two directories bear the name for a moment.
    wait_until(lambda: len(list(server.folder.glob(f"*/{topic}-{partition}"))) == 1, timeout=10)
    (path,) = (each.parent for each in server.folder.glob(f"*/{topic}-{partition}"))
    return path


def other(path: Path) -> Path:
    return next(path.parent / name for name in DIRS if name != path.name)


def log_dirs(server: KafkapyProcess, *topics: str) -> dict[str, dict[str, dict[str, Any]]]:
    """What kafka-log-dirs tells: partitions by their name, by directory."""
    text = tool("log-dirs", server.bootstrap_servers, "--describe", "--topic-list", ",".join(topics))
    told = json.loads(text.splitlines()[-1])
    return {
        Path(each["logDir"]).name: {p["partition"]: p for p in each["partitions"]}
        for each in told["brokers"][0]["logDirs"]
    }


@pytest.mark.usefixtures("java")
def test_reassign_partitions_moves_a_partition_that_is_written(
    server: KafkapyProcess, tmp_path: Path
) -> None:
    create(server, "events")
    source = directory_of(server, "events", 0)
    target = other(source)
    plan = write_json(
        tmp_path / "plan.json",
        {
            "version": 1,
            "partitions": [{"topic": "events", "partition": 0, "replicas": [1], "log_dirs": [str(target)]}],
        },
    )
    arguments = ["--reassignment-json-file", plan]
    with Load(server.bootstrap_servers, "events") as load:
        wait_until(lambda: len(load.acknowledged) > 1000, timeout=10)
        told = tool("reassign-partitions", server.bootstrap_servers, "--execute", *arguments)
        assert f"Successfully started moving log directory to {target} for replica events-0" in told, told
        wait_until(lambda: (target / "events-0").is_dir(), timeout=20)
        so_far = len(load.acknowledged)
        wait_until(lambda: len(load.acknowledged) > so_far + 1000, timeout=10)
    told = tool("reassign-partitions", server.bootstrap_servers, "--verify", *arguments)
    assert "Reassignment of replica events-0-1 completed successfully." in told, told
    assert directory_of(server, "events", 0) == target
    places = log_dirs(server, "events")
    assert list(places[target.name]) == ["events-0"]
    assert places[source.name] == {}
    assert places[target.name]["events-0"]["offsetLag"] == 0
    assert not places[target.name]["events-0"]["isFuture"]
    check(server, load)
    server.stop()
    server.start()
    check(server, load)


def check(server: KafkapyProcess, load: Load) -> None:
    """Every acknowledged record is there once, in its order."""
    read = consume(server.bootstrap_servers, "events", len(load.acknowledged))
    assert [int(each.record.value or b"") for each in read] == load.acknowledged
    assert load.acknowledged == list(range(len(load.acknowledged)))


@pytest.mark.usefixtures("java")
def test_a_partition_is_created_where_a_plan_says(server: KafkapyProcess, tmp_path: Path) -> None:
    create(server, "first")
    target = directory_of(server, "first", 0)
    admin = KafkaAdminClient(bootstrap_servers=server.bootstrap_servers)
    try:
        refused = admin.alter_replica_log_dirs(alteration("events", 0, target))
    finally:
        admin.close()
    assert [error.__name__ for error in refused.values()] == ["UnknownTopicOrPartitionError"]
    create(server, "events")
    assert directory_of(server, "events", 0) == target
    places = log_dirs(server, "first", "events")
    assert sorted(places[target.name]) == ["events-0", "first-0"]


def test_kafka_python_moves_and_describes(server: KafkapyProcess) -> None:
    create(server, "events", 2)
    with Load(server.bootstrap_servers, "events") as load:
        wait_until(lambda: len(load.acknowledged) > 500, timeout=10)
        admin = KafkaAdminClient(bootstrap_servers=server.bootstrap_servers)
        try:
            for _ in range(3):
                target = other(directory_of(server, "events", 0))
                (answer,) = admin.alter_replica_log_dirs(alteration("events", 0, target)).values()
                assert answer.__name__ == "NoError"
                wait_until((target / "events-0").is_dir, timeout=20)
            (described,) = admin.describe_log_dirs()
        finally:
            admin.close()
    places = {
        Path(each["log_dir"]).name: [
            (topic["name"], partition["partition_index"], partition["is_future_key"])
            for topic in each["topics"]
            for partition in topic["partitions"]
        ]
        for each in described["log_dirs"]
    }
    assert ("events", 0, False) in places[target.name]
    assert sorted(place for each in places.values() for place in each)[:2] == [
        ("events", 0, False),
        ("events", 1, False),
    ]
    check(server, load)


def alteration(topic: str, partition: int, path: Path) -> dict[tuple[str, int, int], str]:
    """The argument of kafka-python's `alter_replica_log_dirs`."""
    return {(topic, partition, 1): str(path)}


def test_a_broker_that_is_killed_while_a_partition_moves_has_lost_nothing(server: KafkapyProcess) -> None:
    seed = int(os.environ.get("KAFKAPY_SEED", str(random.SystemRandom().randrange(10**6))))
    chance = random.Random(seed)
    create(server, "events")
    with Load(server.bootstrap_servers, "events") as load:
        for _ in range(KILLS):
            so_far = len(load.acknowledged)
            wait_until(lambda so_far=so_far: len(load.acknowledged) > so_far + 1000, timeout=30)  # type: ignore[misc]
            target = other(directory_of(server, "events", 0))
            mover = threading.Thread(target=move, args=(server, target))
            mover.start()
            time.sleep(chance.random() * 0.25)
            server.kill()
            server.start()
            mover.join()
    print(f"KAFKAPY_SEED={seed}, killed {KILLS} times, {len(load.acknowledged)} acknowledged")
    check(server, load)


def move(server: KafkapyProcess, target: Path) -> None:
    """Ask for a move, of which nobody may hear the answer."""
    with contextlib.suppress(KafkaError):
        admin = KafkaAdminClient(bootstrap_servers=server.bootstrap_servers)
        try:
            admin.alter_replica_log_dirs(alteration("events", 0, target))
        finally:
            admin.close()


@pytest.mark.usefixtures("java")
def test_deleted_records_stay_deleted_after_a_move(server: KafkapyProcess, tmp_path: Path) -> None:
    create(server, "events")
    with Load(server.bootstrap_servers, "events") as load:
        wait_until(lambda: len(load.acknowledged) > 200, timeout=10)
    content = {"partitions": [{"topic": "events", "partition": 0, "offset": 100}], "version": 1}
    path = write_json(tmp_path / "delete.json", content)
    told = tool("delete-records", server.bootstrap_servers, "--offset-json-file", path)
    assert "low_watermark: 100" in told, told
    source = directory_of(server, "events", 0)
    admin = KafkaAdminClient(bootstrap_servers=server.bootstrap_servers)
    admin.alter_replica_log_dirs(alteration("events", 0, other(source)))
    admin.close()
    wait_until((other(source) / "events-0").is_dir, timeout=20)
    told = tool("get-offsets", server.bootstrap_servers, "--topic", "events", "--time", "earliest")
    assert told.strip() == "events:0:100"
