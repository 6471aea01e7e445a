"""Send and read records with kafka-python."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from interop.support.records import Received, Record


def produce(
    bootstrap_servers: str,
    topic: str,
    records: Iterable[Record],
    *,
    partition: int | None = None,
    **config: Any,
) -> list[Any]:
    """Send all records, wait for the answers, and return the result of each."""
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers, **config)
    try:
        futures = [
            producer.send(
                topic,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                partition=partition,
                timestamp_ms=record.timestamp,
            )
            for record in records
        ]
        return [future.get(timeout=30) for future in futures]
    finally:
        producer.close()


def consume(
    bootstrap_servers: str,
    topic: str,
    count: int,
    *,
    partitions: int = 1,
    timeout: float = 30.0,
    **config: Any,
) -> list[Received]:
    """Return the first `count` records of the topic, read without a group."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest", **config)
    try:
        consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
        return poll(consumer, count, timeout)
    finally:
        consumer.close()


def poll(consumer: KafkaConsumer, count: int, timeout: float = 30.0) -> list[Received]:
    received: list[Received] = []
    deadline = time.monotonic() + timeout
    while len(received) < count and time.monotonic() < deadline:
        # Long enough for a join: one that outlasts the poll may be forgotten (FINDINGS, 5).
        for records in consumer.poll(timeout_ms=5_000).values():
            received += [as_received(record) for record in records]
    return received


def as_received(record: Any) -> Received:
    headers = tuple((name, value) for name, value in record.headers)
    return Received(
        record.partition, record.offset, Record(record.key, record.value, headers, record.timestamp)
    )
