"""Topics of many partitions, and records to each of them."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka.admin import AdminClient, NewTopic

from scripts.benchmarks.rows import flush_rows, produce_rows, row_producer


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


def produce_to_each(
    bootstrap_servers: str, sizes: Mapping[str, int], records: int, record_bytes: int, **settings: object
) -> None:
    """Produce so many records to each partition, by a producer with these settings.

    Raises RuntimeError if one is not acknowledged.
    """
    patience = {"message.timeout.ms": 300_000, "socket.timeout.ms": 120_000}
    producer = row_producer(bootstrap_servers, linger_ms=5, **patience, **settings)
    value = (bytes(range(256)) * (record_bytes // 256 + 1))[:record_bytes]
    for first in range(0, records, 1000):
        for name, size in sizes.items():
            for partition in range(size):
                rows = [{"value": value} for _ in range(min(1000, records - first))]
                produce_rows(producer, name, partition, rows)
    flush_rows(producer)
