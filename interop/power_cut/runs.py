"""The same power cuts for Apache Kafka and kafkapy, each on its own ext4 image.

    acknowledged   `count` records to one partition, acks=all, of a broker whose other files are on disk; one
                   second after the last acknowledgement the power is cut: how many are there afterwards?
    first start    the power is cut when the broker has just answered for the first time: does it ever start
                   again?

Both brokers run with the durability settings that they ship with.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.support.kafka_process import KafkaProcess
from interop.support.waiting import wait_until
from interop.support.watermarks import watermarks
from tests.crash.loop_disk import LoopDisk
from tests.crash.power_scenes import lose_power
from tests.servers.kafkapy_process import KafkapyProcess
from tests.servers.server_process import ServerStartError

TOPIC = "records"
DEADLINE = 60.0
SETTLE_SECONDS = 1.0


class Run(NamedTuple):
    """The result of one power cut."""

    broker: str
    what: str
    acknowledged: int
    lost: int
    starts_again: bool
    note: str = ""


class KafkaOnDisk(KafkaProcess):
    """Apache Kafka with only its data on the disk."""

    name = "Apache Kafka 4.3.1"

    def __init__(self, disk: LoopDisk, folder: Path) -> None:
        data = disk.path / "data"
        super().__init__(folder, properties={"log.dirs": str(data)}, heap="512m")
        self.data = data
        self._formatted = False

    def _format(self) -> None:
        """Format the storage the first time only, as an operator does."""
        if not self._formatted:
            super()._format()
        self._formatted = True

    def last_words(self) -> str:
        lines = [line for line in self.output().splitlines() if "ERROR" in line or "Exception" in line]
        return lines[-1].replace(f"{self.data.parent}/", "")[:200] if lines else ""


class KafkapyOnDisk(KafkapyProcess):
    """kafkapy with only its data on the disk."""

    def __init__(self, disk: LoopDisk, folder: Path) -> None:
        super().__init__(folder, data=disk.path / "data")

    def last_words(self) -> str:
        return self.output()[-200:]


BROKERS = (KafkaOnDisk, KafkapyOnDisk)
OnDisk = KafkaOnDisk | KafkapyOnDisk


def cut_after_acknowledgement(kind: type[OnDisk], folder: Path, count: int) -> Run:
    """Produce, wait a second, cut, start, count."""
    with _on_disk(kind, folder) as (disk, broker):
        broker.start(timeout=DEADLINE)
        _create_topic(broker.bootstrap_servers)
        # Everything except the records is on disk.
        subprocess.run(["sync", "-f", str(disk.path)], check=True)
        acknowledged = _produce(broker.bootstrap_servers, count)
        time.sleep(SETTLE_SECONDS)
        lose_power(disk, broker)
        try:
            broker.start(timeout=DEADLINE)
        except ServerStartError:
            return Run(kind.name, "acknowledged", acknowledged, acknowledged, False, broker.last_words())
        left = _count(broker.bootstrap_servers)
        return Run(kind.name, "acknowledged", acknowledged, acknowledged - left, True)


def cut_at_first_start(kind: type[OnDisk], folder: Path) -> Run:
    """Start for the first time, cut, start twice."""
    with _on_disk(kind, folder) as (disk, broker):
        broker.start(timeout=DEADLINE)
        lose_power(disk, broker)
        for _ in range(2):
            try:
                broker.start(timeout=DEADLINE)
            except ServerStartError:
                continue
            return Run(kind.name, "first start", 0, 0, True)
        return Run(kind.name, "first start", 0, 0, False, broker.last_words())


@contextmanager
def _on_disk(kind: type[OnDisk], folder: Path) -> Iterator[tuple[LoopDisk, OnDisk]]:
    with LoopDisk(folder) as disk, kind(disk, folder).killed_at_end() as broker:
        yield disk, broker


def _create_topic(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(DEADLINE)


def _produce(servers: str, count: int) -> int:
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
    acknowledged = 0

    def delivered(error: object, _: object) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    for number in range(count):
        producer.produce(TOPIC, b"%d" % number, partition=0, on_delivery=delivered)
        producer.poll(0)
    producer.flush(DEADLINE)
    return acknowledged


def _count(servers: str) -> int:
    """The records that are there; none of a topic that is forgotten."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "unused", "log_level": 0})
    try:
        wait_until(lambda: TOPIC in admin.list_topics(timeout=DEADLINE).topics, timeout=10)
        low, high = watermarks(consumer, TopicPartition(TOPIC, 0), timeout=DEADLINE)
        return int(high - low)
    except AssertionError:
        return 0
    finally:
        consumer.close()
