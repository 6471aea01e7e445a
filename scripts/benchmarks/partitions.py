"""Topics of many partitions, and records to each of them."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic


def topic_sizes(partitions: int, topic_size: int) -> dict[str, int]:
    """The names of topics, and how many of the partitions each has.

    Each has `topic_size`, and the last has what is left.
    """
    starts = range(0, partitions, topic_size)
    return {f"bench-{n}": min(topic_size, partitions - start) for n, start in enumerate(starts)}


def create(bootstrap_servers: str, sizes: Mapping[str, int], replicas: int = 1) -> None:
    """Create topics with so many partitions, one after the other."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for name, size in sizes.items():
        topics = [NewTopic(name, size, replicas)]
        admin.create_topics(topics, operation_timeout=120, request_timeout=120)[name].result(120)


def produce_to_each(bootstrap_servers: str, sizes: Mapping[str, int], records: int, record_bytes: int) -> int:
    """Produce so many records to each partition in turn; how many were acknowledged."""
    failed = 0

    def count_failed(*_: object) -> None:
        nonlocal failed
        failed += 1

    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "queue.buffering.max.messages": 100_000,
            "message.timeout.ms": 300_000,
            "socket.timeout.ms": 120_000,
            "delivery.report.only.error": True,
            "on_delivery": count_failed,
        }
    )
    value = bytes(range(256)) * (record_bytes // 256 + 1)
    for _ in range(records):
        for name, size in sizes.items():
            for partition in range(size):
                while True:
                    try:
                        producer.produce(name, value[:record_bytes], partition=partition)
                        break
                    except BufferError:  # the queue is full
                        producer.poll(0.05)
            producer.poll(0)
    unsent: int = producer.flush(300)
    return records * sum(sizes.values()) - failed - unsent
