"""Creating five hundred topics of four partitions."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from confluent_kafka.admin import NewTopic

from interop.support.waiting import wait_until
from scripts.benchmarks.load import Figures, Target

_TOPICS, _PARTITIONS = 500, 4

_rounds = itertools.count(1)


def create_topics(target: Target, scale: float) -> Figures:
    """Load: create many topics in one request, then delete them.

    One CreateTopics is for all. It is measured until the last topic has its leaders, and until each partition
    has its directory, which both brokers make later.
    """
    count = int(_TOPICS * scale)
    prefix = f"many-{next(_rounds)}-"
    topics = [f"{prefix}{n}" for n in range(count)]
    memory = target.meter.resident_mb()

    watch = target.stopwatch()
    futures = target.admin.create_topics(
        [NewTopic(topic, _PARTITIONS, 1) for topic in topics], request_timeout=60
    )
    for future in futures.values():
        future.result(60)
    wait_until(lambda: _led(target, prefix) == count * _PARTITIONS, timeout=60, pause=0.02)
    created = watch.cost()
    wait_until(
        lambda: _directories(target.server.data, prefix) == count * _PARTITIONS, timeout=300, pause=0.02
    )
    filed = watch.cost()
    grown = target.meter.resident_mb() - memory

    watch = target.stopwatch()
    for future in target.admin.delete_topics(topics, request_timeout=60).values():
        future.result(60)
    wait_until(lambda: _led(target, prefix) == 0, timeout=60, pause=0.02)
    deleted = watch.cost()
    return {
        "partitions created/s": count * _PARTITIONS / created.seconds,
        "partitions with directories/s": count * _PARTITIONS / filed.seconds,
        "CPU ms per topic created": filed.cpu_seconds / count * 1000,
        "memory for them, MB": grown,
        "partitions deleted/s": count * _PARTITIONS / deleted.seconds,
    }


def _directories(data: Path, prefix: str) -> int:
    """How many partitions of these topics have one."""
    return sum(entry.name.startswith(prefix) for entry in os.scandir(data))


def _led(target: Target, prefix: str) -> int:
    """How many partitions of these topics have a leader."""
    topics = target.admin.list_topics(timeout=60).topics
    return sum(
        partition.leader >= 0
        for name, topic in topics.items()
        if name.startswith(prefix)
        for partition in topic.partitions.values()
    )
