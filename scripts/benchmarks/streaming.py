"""Produce, then consume, as fast as librdkafka goes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from confluent_kafka import Consumer, TopicPartition

from scripts.benchmarks.load import Figures, Target
from scripts.benchmarks.rows import flush_rows, produce_rows, row_producer

_ROWS = 1_000


def streaming(
    partitions: int, record_size: int, megabytes: int, *, idempotent: bool = False
) -> Callable[[Target, float], Figures]:
    """Load: about so many MB (of values) in records of one size, written and read once."""

    def run(target: Target, scale: float) -> Figures:
        topic = target.new_topic(partitions)
        watch = target.stopwatch()
        records = write_rows(
            target.bootstrap_servers, topic, partitions, record_size, megabytes * scale, idempotent=idempotent
        )
        written = watch.cost()
        watch = target.stopwatch()
        _consume(target.bootstrap_servers, topic, partitions, records)
        read = watch.cost()

        gigabytes = records * record_size / 1e9
        figures = {
            "produce MB/s": gigabytes * 1000 / written.seconds,
            "produce CPU s/GB": written.cpu_seconds / gigabytes,
            "consume MB/s": gigabytes * 1000 / read.seconds,
            "consume CPU s/GB": read.cpu_seconds / gigabytes,
            "memory after, MB": target.meter.resident_mb(),
            "memory at most, MB": target.meter.peak_resident_mb(),
            "memory after, shared counted once, MB": target.meter.proportional_mb(),
        }
        target.delete_topic(topic)
        return figures

    return run


def write_rows(
    bootstrap_servers: str,
    topic: str,
    partitions: int,
    record_size: int,
    megabytes: float,
    *,
    idempotent: bool = False,
) -> int:
    """Produce about so many MB, spread over the partitions; how many records they are."""
    rounds = max(1, int(megabytes * 1e6 / (record_size * _ROWS * partitions)))
    producer = row_producer(bootstrap_servers, linger_ms=5, **{"enable.idempotence": idempotent})
    rows = [{"value": os.urandom(record_size)} for _ in range(_ROWS)]
    for _ in range(rounds):
        for partition in range(partitions):
            produce_rows(producer, topic, partition, rows)
    flush_rows(producer)
    return rounds * _ROWS * partitions


def _consume(bootstrap_servers: str, topic: str, partitions: int, records: int) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            # Let the client's own queue limits not decide: by default it rests for a second there.
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 1,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    left, deadline = records, time.monotonic() + 600
    while left > 0:
        left -= len(consumer.consume(10_000, 1.0))
        if time.monotonic() > deadline:
            raise RuntimeError(f"{left} of {records} records did not come")
    consumer.close()
