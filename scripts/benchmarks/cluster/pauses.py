"""How long producers wait for an acknowledgement when a broker goes away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from interop.support.waiting import wait_until
from scripts.benchmarks.cluster.target import ClusterTarget, partitions_of
from scripts.benchmarks.load import Figures
from tests.servers.server_process import ServerProcess

_TOPIC: Final = "steady"
_PARTITIONS: Final = 6
_INTERVAL_SECONDS: Final = 0.02
_VALUE: Final = b"x" * 100


class Gap(NamedTuple):
    """Two acknowledgements, and none between them."""

    seconds: float
    end: float


def longest_gap(times: Sequence[float], since: float) -> Gap:
    """The longest time between two neighbours, the later of them not before `since`."""
    gaps = (Gap(after - before, after) for before, after in pairwise(times) if after >= since)
    return max(gaps, default=Gap(0, since))


class _SteadyProducer:
    """Sends a record to each partition every 20 ms, and notes when each is acknowledged."""

    def __init__(self, bootstrap_servers: str) -> None:
        settings = {"enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, **settings})
        self._times: list[list[float]] = [[] for _ in range(_PARTITIONS)]
        self._error: KafkaError | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        due = time.perf_counter()
        while not self._stop.is_set():
            for partition in range(_PARTITIONS):
                self._producer.produce(_TOPIC, _VALUE, partition=partition, on_delivery=self._told)
            due += _INTERVAL_SECONDS
            while (left := due - time.perf_counter()) > 0:
                self._producer.poll(left)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        self._error = self._error or error
        self._times[message.partition()].append(time.perf_counter())

    def wait_for_more(self, records: int) -> None:
        """Wait until each partition has got so many more."""
        wanted = [len(times) + records for times in self._times]
        wait_until(
            lambda: all(len(times) >= count for times, count in zip(self._times, wanted, strict=True)),
            timeout=120,
        )
        if self._error:
            raise RuntimeError(f"a record was refused: {self._error}")

    def longest_gap(self, partitions: set[int], since: float) -> Gap:
        """That of the partition in which it is longest."""
        return max(longest_gap(self._times[partition], since) for partition in partitions)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush(60)


@contextmanager
def _producing(bootstrap_servers: str) -> Iterator[_SteadyProducer]:
    producer = _SteadyProducer(bootstrap_servers)
    try:
        yield producer
    finally:
        producer.close()


def pauses(target: ClusterTarget, _scale: float) -> Figures:
    """Load: kill and stop a broker that leads two of six partitions, and so the controller."""
    if _TOPIC not in partitions_of(target.servers[0]):
        target.new_spread_topic(_TOPIC, _PARTITIONS)
    figures: Figures = {}
    faults: dict[str, tuple[Callable[[], int], Callable[[ServerProcess], object]]] = {
        "SIGTERM of a leader": (target.another, ServerProcess.stop),
        "SIGTERM of the controller": (target.controller, ServerProcess.stop),
        "SIGKILL of a leader": (target.another, ServerProcess.kill),
        "SIGKILL of the controller": (target.controller, ServerProcess.kill),
    }
    with _producing(target.bootstrap_servers) as producer:
        producer.wait_for_more(100)
        since = time.perf_counter()
        producer.wait_for_more(100)
        figures["undisturbed, s"] = producer.longest_gap(set(range(_PARTITIONS)), since).seconds
        for label, (choose, fault) in faults.items():
            victim = choose()
            its = {n for n in range(_PARTITIONS) if n % len(target.servers) == victim - 1}
            producer.wait_for_more(10)
            with target.session_of(victim) as ended:
                since = time.perf_counter()
                fault(target.broker(victim))
                _wait_until_out(target, victim)
            producer.wait_for_more(50)
            gap = producer.longest_gap(its, since)
            figures[f"{label}: its partitions, s"] = gap.seconds
            others = set(range(_PARTITIONS)) - its
            figures[f"{label}: others, s"] = producer.longest_gap(others, since).seconds
            if fault is ServerProcess.kill:
                figures[f"{label}: after its session has ended, s"] = gap.end - ended.result()
            target.restore(victim)
    return figures


def _wait_until_out(target: ClusterTarget, number: int) -> None:
    """Wait until the other brokers show it in sync nowhere."""

    def is_out() -> bool:
        return not any(
            number in each.isr_nodes
            for server in target.without(number)
            for each in partitions_of(server)[_TOPIC]
        )

    wait_until(is_out, timeout=120)
