"""Creating hundreds of topics."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable

from confluent_kafka.admin import NewTopic

from interop.support.waiting import wait_until
from scripts.benchmarks.load import Figures, Target

_PATIENCE = 300
"""Seconds."""

_rounds = itertools.count(1)


def creating_topics(topics: int, partitions: int) -> Callable[[Target, float], Figures]:
    """Load: create many topics in one request, then delete them.

    One CreateTopics is for all. It is measured until the last topic has its leaders, and until each replica
    has its directory, which both kinds of broker make later.
    """
    return lambda target, scale: _create(target, int(topics * scale), partitions)


def _create(target: Target, count: int, partitions: int) -> Figures:
    prefix = f"many-{next(_rounds)}-"
    topics = [f"{prefix}{n}" for n in range(count)]
    memory = target.meter.resident_mb()

    watch = target.stopwatch()
    futures = target.admin.create_topics(
        [NewTopic(topic, partitions, target.replicas) for topic in topics], request_timeout=_PATIENCE
    )
    for future in futures.values():
        future.result(_PATIENCE)
    wait_until(lambda: _led(target, prefix) == count * partitions, timeout=_PATIENCE, pause=0.02)
    created = watch.cost()
    wait_until(
        lambda: _directories(target, prefix) == count * partitions * target.replicas,
        timeout=_PATIENCE,
        pause=0.02,
    )
    filed = watch.cost()
    grown = target.meter.resident_mb() - memory

    watch = target.stopwatch()
    for future in target.admin.delete_topics(topics, request_timeout=_PATIENCE).values():
        future.result(_PATIENCE)
    wait_until(lambda: _led(target, prefix) == 0, timeout=_PATIENCE, pause=0.02)
    deleted = watch.cost()
    return {
        "until the last has a leader, s": created.seconds,
        "partitions created/s": count * partitions / created.seconds,
        "partitions with directories/s": count * partitions / filed.seconds,
        "CPU ms per topic created": filed.cpu_seconds / count * 1000,
        "memory for them, MB": grown,
        "partitions deleted/s": count * partitions / deleted.seconds,
    }


def _directories(target: Target, prefix: str) -> int:
    """How many replicas of these topics have one."""
    return sum(
        entry.name.startswith(prefix) for server in target.servers for entry in os.scandir(server.data)
    )


def _led(target: Target, prefix: str) -> int:
    """How many partitions of these topics have a leader."""
    topics = target.admin.list_topics(timeout=60).topics
    return sum(
        partition.leader >= 0
        for name, topic in topics.items()
        if name.startswith(prefix)
        for partition in topic.partitions.values()
    )
