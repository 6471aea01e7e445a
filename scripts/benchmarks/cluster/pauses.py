"""How long producers wait for an acknowledgement when a broker goes away."""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from interop.support.waiting import wait_until
from scripts.benchmarks.cluster.steady import INTERVAL_SECONDS, SteadyClient, faults
from scripts.benchmarks.cluster.target import ClusterTarget, partitions_of
from scripts.benchmarks.load import Figures
from tests.servers.server_process import ServerProcess

_TOPIC: Final = "steady"
_PARTITIONS: Final = 6


class _SteadyProducer(SteadyClient):
    """Sends a record to each partition every 20 ms; each partition is a series."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(_PARTITIONS)
        settings = {"enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, **settings})
        self._due = time.perf_counter()

    def ask(self) -> None:
        for partition in range(_PARTITIONS):
            self._producer.produce(_TOPIC, b"x" * 100, partition=partition, on_delivery=self._told)
        self._due += INTERVAL_SECONDS
        while (left := self._due - time.perf_counter()) > 0:
            self._producer.poll(left)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error:
            raise RuntimeError(f"a record was refused: {error}")
        self.answers[message.partition()].append(time.perf_counter())

    def close(self) -> None:
        self._producer.flush(60)


def pauses(target: ClusterTarget, _scale: float) -> Figures:
    """Load: stop and kill a broker that leads two of six partitions, and so the controller."""
    if _TOPIC not in partitions_of(target.servers[0]):
        target.new_spread_topic(_TOPIC, _PARTITIONS)
    everywhere = set(range(_PARTITIONS))
    figures: Figures = {}
    with _SteadyProducer(target.bootstrap_servers) as producer:
        producer.wait_for_more(100)
        since = time.perf_counter()
        producer.wait_for_more(100)
        figures["undisturbed, s"] = producer.longest_gap(everywhere, since).seconds
        for label, victim, fault in faults(target, "a leader"):
            its = {n for n in everywhere if n % len(target.servers) == victim - 1}
            producer.wait_for_more(10)
            with target.session_of(victim) as ended:
                since = time.perf_counter()
                fault(target.broker(victim))
                _wait_until_out(target, victim)
            producer.wait_for_more(50)
            gap = producer.longest_gap(its, since)
            figures[f"{label}: its partitions, s"] = gap.seconds
            figures[f"{label}: others, s"] = producer.longest_gap(everywhere - its, since).seconds
            if fault is ServerProcess.kill:
                figures[f"{label}: after its session has ended, s"] = gap.end - ended.result()
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
