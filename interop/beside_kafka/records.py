"""Writes and reads records as an application does, and says whether all went well."""

from __future__ import annotations

import time
from collections.abc import Sequence

from confluent_kafka import Consumer, Producer, TopicPartition

from interop.beside_kafka.mixed_cluster import MixedCluster
from interop.support.waiting import wait_until

DEADLINE_SECONDS = 60.0


def write(
    cluster: MixedCluster,
    topic: str,
    values: Sequence[bytes],
    *,
    partition: int = 0,
    acks: str = "all",
    idempotent: bool = True,
) -> None:
    """Write records, and fail unless all are acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "acks": acks,
            "enable.idempotence": idempotent and acks == "all",
            "message.max.bytes": 9_000_000,
            "log_level": 0,
        }
    )
    failures: list[str] = []
    for value in values:
        producer.produce(
            topic,
            value,
            partition=partition,
            on_delivery=lambda error, _: failures.append(str(error)) if error is not None else None,
        )
        producer.poll(0)
    assert producer.flush(DEADLINE_SECONDS) == 0
    assert failures == []


def numbered(word: str, count: int = 500) -> list[bytes]:
    return [f"{word} {number}".encode() for number in range(count)]


def read(cluster: MixedCluster, topic: str, count: int, *, partition: int = 0) -> list[bytes]:
    """The first `count` values of a partition."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "unused", "log_level": 0}
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        values: list[bytes] = []
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(values) < count and time.monotonic() < deadline:
            for message in consumer.consume(count - len(values), timeout=0.5):
                assert message.error() is None, message.error()
                values.append(message.value() or b"")
        return values
    finally:
        consumer.close()


def wait_until_equal(
    cluster: MixedCluster, topic: str, *, partition: int = 0, brokers: Sequence[int] = (1, 2, 3)
) -> bytes:
    """Wait until the .log files of the replicas are the same, and return their bytes."""

    def are_equal() -> bool:
        first, *others = [cluster.log_bytes(number, topic, partition) for number in brokers]
        return bool(first) and all(other == first for other in others)

    wait_until(are_equal, ignoring=FileNotFoundError)
    return b"".join(cluster.log_bytes(brokers[0], topic, partition).values())
