"""Transactions, one after the other, of one producer or of several."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Producer

from scripts.benchmarks.load import Figures, Target
from scripts.benchmarks.meter import percentiles

_TRANSACTIONS = 1_000
_VALUE = b"x" * 100
_ids = itertools.count(1)


def in_turn(partitions: int, *, producers: int = 1) -> Callable[[Target, float], Figures]:
    """Load: transactions one after another, each with a record for every partition.

    The next one begins when the one before is committed.
    """

    def run(target: Target, scale: float) -> Figures:
        topic = target.new_topic(partitions)
        each = max(int(_TRANSACTIONS * scale) // producers, 1)
        made = [_producer(target.bootstrap_servers) for _ in range(producers)]
        for producer in made:
            producer.init_transactions(60)
            _transaction(producer, topic, partitions)
        with ThreadPoolExecutor(producers) as threads:
            watch = target.stopwatch()
            times = list(threads.map(lambda producer: _run(producer, topic, partitions, each), made))
            cost = watch.cost()
        count = each * producers
        return {
            "transactions/s": count / cost.seconds,
            **percentiles(list(itertools.chain(*times))),
            "CPU µs/transaction": cost.cpu_seconds / count * 1e6,
        }

    return run


def _producer(bootstrap_servers: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "transactional.id": f"bench {next(_ids)}",
            "linger.ms": 0,
            "log_level": 0,
        }
    )


def _run(producer: Producer, topic: str, partitions: int, count: int) -> list[float]:
    times = []
    for _ in range(count):
        begun = time.perf_counter()
        _transaction(producer, topic, partitions)
        times.append(time.perf_counter() - begun)
    return times


def _transaction(producer: Producer, topic: str, partitions: int) -> None:
    producer.begin_transaction()
    for partition in range(partitions):
        producer.produce(topic, _VALUE, partition=partition)
    producer.commit_transaction(60)
