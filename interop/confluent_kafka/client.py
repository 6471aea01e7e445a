"""Send and read records with confluent-kafka."""

from __future__ import annotations

import time
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from interop.support.records import Received, Record

BIG_ENOUGH = {"message.max.bytes": 2_000_000}


def produce(
    bootstrap_servers: str, topic: str, records: Iterable[Record], *, partition: int = -1, **config: object
) -> list[Message]:
    """Send all records, wait, and return each result.

    `_` in a setting's name stands for a dot.
    """
    settings = {key.replace("_", "."): value for key, value in config.items()}
    producer = Producer({"bootstrap.servers": bootstrap_servers, **BIG_ENOUGH, **settings})
    told: list[Message] = []

    def delivered(error: object, message: Message) -> None:
        assert error is None, error
        told.append(message)

    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            partition,
            on_delivery=delivered,
            timestamp=record.timestamp,
            headers=list(record.headers),
        )
        producer.poll(0)
    assert producer.flush(30) == 0
    return told


def consume(
    bootstrap_servers: str,
    topic: str,
    count: int,
    *,
    partitions: int = 1,
    timeout: float = 30.0,
    **config: object,
) -> list[Received]:
    """Return the first `count` records of the topic, read without a group."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "unused", "check.crcs": True, **settings}
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    try:
        return poll(consumer, count, timeout)
    finally:
        consumer.close()


def poll(consumer: Consumer, count: int, timeout: float = 30.0) -> list[Received]:
    received: list[Received] = []
    deadline = time.monotonic() + timeout
    while len(received) < count and time.monotonic() < deadline:
        received += map(as_received, consumer.consume(count - len(received), 0.5))
    return received


def as_received(message: Message) -> Received:
    if error := message.error():
        raise KafkaException(error)
    _type, timestamp = message.timestamp()
    headers = tuple(message.headers() or ())
    return Received(
        message.partition(), message.offset(), Record(message.key(), message.value(), headers, timestamp)
    )
