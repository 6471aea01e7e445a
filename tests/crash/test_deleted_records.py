"""Records whose deletion was acknowledged stay deleted, whatever ends the broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.crash.load import RECONNECT, create_topic
from tests.crash.loop_disk import LoopDisk, why_not
from tests.crash.power_scenes import broker_on, lose_power
from tests.servers.kafkapy_process import KafkapyProcess

SECONDS = 30


def produce(broker: KafkapyProcess, partitions: int) -> None:
    """Write ten records to each partition."""
    create_topic(broker.bootstrap_servers, "topic", partitions, {})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **RECONNECT})
    for partition in range(partitions):
        for _ in range(10):
            producer.produce("topic", b"value", partition=partition)
    assert producer.flush(SECONDS) == 0


def delete_records(broker: KafkapyProcess, partitions: int, offset: int) -> list[int]:
    """The low watermarks in the answer."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **RECONNECT})
    wanted = [TopicPartition("topic", partition, offset) for partition in range(partitions)]
    return [each.result(SECONDS).low_watermark for each in admin.delete_records(wanted).values()]


def low_watermarks(broker: KafkapyProcess, partitions: int) -> list[int]:
    """What a consumer is told."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", **RECONNECT})
    try:
        return [
            consumer.get_watermark_offsets(TopicPartition("topic", partition), timeout=SECONDS)[0]
            for partition in range(partitions)
        ]
    finally:
        consumer.close()


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_a_sigkill_brings_no_deleted_records_back(tmp_path: Path, durability: str) -> None:
    with KafkapyProcess(tmp_path, properties={"durability": durability}) as broker:
        produce(broker, 3)
        assert delete_records(broker, 3, 7) == [7] * 3
        broker.kill()
        broker.start()
        assert low_watermarks(broker, 3) == [7] * 3
        assert delete_records(broker, 3, -1) == [10] * 3
        broker.kill()
        broker.start()
        assert low_watermarks(broker, 3) == [10] * 3


@pytest.mark.slow
def test_a_power_cut_brings_no_deleted_records_back(tmp_path: Path) -> None:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with LoopDisk(tmp_path, megabytes=64) as disk, broker_on(disk, tmp_path) as broker:
        produce(broker, 2)
        assert delete_records(broker, 2, 7) == [7] * 2
        lose_power(disk, broker)
        broker.start()
        assert low_watermarks(broker, 2) == [7] * 2
