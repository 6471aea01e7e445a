"""What a read_committed consumer is given of a topic, from its beginning to its end."""

from __future__ import annotations

import time
from collections import defaultdict

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

_RECONNECT = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "log_level": 0}


def committed_values(servers: str, topic: str, partitions: int) -> dict[int, list[str]]:
    """The values of each partition, in order."""
    return {
        partition: [(message.value() or b"").decode() for message in found]
        for partition, found in committed_messages(servers, topic, partitions).items()
    }


def committed_messages(
    servers: str, topic: str, partitions: int, timeout: float = 30.0
) -> dict[int, list[Message]]:
    """The messages of each partition, in order; fails if the ends are not reached in time."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            **_RECONNECT,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: dict[int, list[Message]] = defaultdict(list)
    open_ended, deadline = set(range(partitions)), time.monotonic() + timeout
    try:
        while open_ended:
            assert time.monotonic() < deadline, f"{topic}: no end of partitions {sorted(open_ended)}"
            for message in consumer.consume(500, 0.1):
                error, partition = message.error(), message.partition()
                if error is None:
                    found[partition].append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_ended.discard(partition)
    finally:
        consumer.close()
    return found
