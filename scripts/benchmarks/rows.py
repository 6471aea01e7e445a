"""Rows given to librdkafka some thousand at a time; it builds its own batches of them."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Producer


def row_producer(bootstrap_servers: str, *, linger_ms: int, **settings: object) -> Producer:
    """A producer with a queue for many rows."""
    return Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "acks": "all",
            "linger.ms": linger_ms,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 65_536,
            **settings,
        }
    )


def produce_rows(producer: Producer, topic: str, partition: int, rows: list[dict[str, Any]]) -> None:
    """Queue all of them, however often the queue is full."""
    left = rows
    while producer.produce_batch(topic, left, partition=partition) < len(left):
        left = [row for row in left if row.pop("_error", None)]  # the queue is full
        producer.poll(0.01)
    producer.poll(0)


def flush_rows(producer: Producer) -> None:
    """Wait until all are acknowledged; raises RuntimeError."""
    if unsent := producer.flush(300):
        raise RuntimeError(f"{unsent} records were not acknowledged")
