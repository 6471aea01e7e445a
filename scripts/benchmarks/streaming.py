"""Produce, then consume, as fast as librdkafka goes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

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
            target.client, topic, partitions, record_size, megabytes * scale, idempotent=idempotent
        )
        written = watch.cost()
        watch = target.stopwatch()
        _consume(target.client, topic, partitions, records)
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
    client: Mapping[str, str],
    topic: str,
    partitions: int,
    record_size: int,
    megabytes: float,
    *,
    idempotent: bool = False,
) -> int:
    """Produce about so many MB, spread over the partitions; how many records they are.

    `client` are the settings with which the server is reached.
    """
    rounds = max(1, int(megabytes * 1e6 / (record_size * _ROWS * partitions)))
    settings: dict[str, object] = {**client, "enable.idempotence": idempotent}
    producer = row_producer(client["bootstrap.servers"], linger_ms=5, **settings)
    rows = [{"value": os.urandom(record_size)} for _ in range(_ROWS)]
    for _ in range(rounds):
        for partition in range(partitions):
            produce_rows(producer, topic, partition, rows)
    flush_rows(producer)
    return rounds * _ROWS * partitions


def _consume(client: Mapping[str, str], topic: str, partitions: int, records: int) -> None:
    consumer = Consumer(
        {
            **client,
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
