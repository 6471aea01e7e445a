"""How long a group of consumers takes until it is stable.

This is measured when the group forms, and after a member's death.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import Consumer

from interop.support.waiting import wait_until
from scripts.benchmarks.load import Figures, Target
from scripts.benchmarks.other_process import AtWork, running

_CONSUMERS = 50
_PARTITIONS_EACH = 4

PROPERTIES = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
}
SESSION_SECONDS = 6.0


def becoming_stable(protocol: str) -> Callable[[Target, float], Figures]:
    """Load: consumers subscribe at once; one of them is killed when each has its partitions.

    The scale is that of the number of consumers. A group is stable when all partitions have an owner and no
    consumer has more than its share. The last consumer is a process of its own, which is killed.
    """

    def run(target: Target, scale: float) -> Figures:
        count = max(int(_CONSUMERS * scale), 2)
        partitions = count * _PARTITIONS_EACH
        topic = target.new_topic(partitions)
        member = (target.bootstrap_servers, f"group of {topic}", protocol)
        watch = target.stopwatch()
        with (
            running(consume_alone, *member, topic) as lone,
            _consumers(_settings(*member), topic, count - 1) as consumers,
        ):
            # The one of its own has the rest.
            _wait_for(consumers, partitions - _PARTITIONS_EACH, most=_PARTITIONS_EACH)
            formed = watch.cost()
            watch = target.stopwatch()
            lone.kill()
            _wait_for(consumers, partitions, most=-(-partitions // (count - 1)))
            healed = watch.cost()
            watch = target.stopwatch()
            _poll_for(consumers, 5.0)
            quiet = watch.cost()
        return {
            "until it is stable, s": formed.seconds,
            "CPU seconds of that": formed.cpu_seconds,
            f"after a death (session {SESSION_SECONDS:g} s), s": healed.seconds,
            "CPU seconds after a death": healed.cpu_seconds,
            "CPU ms in a second, stable": quiet.cpu_seconds / quiet.seconds * 1000,
        }

    return run


def consume_alone(at_work: AtWork, bootstrap_servers: str, group: str, protocol: str, topic: str) -> None:
    """Be a member of the group, in a process that can be killed while the others stay."""
    consumer = Consumer(_settings(bootstrap_servers, group, protocol))
    consumer.subscribe([topic])
    at_work.set()
    while True:
        consumer.poll(1.0)


def _settings(bootstrap_servers: str, group: str, protocol: str) -> dict[str, object]:
    """Those of a member; with the consumer protocol the broker sets the times."""
    times = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000} if protocol == "classic" else {}
    return {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "log_level": 0,
        **times,
    }


@contextmanager
def _consumers(settings: dict[str, object], topic: str, count: int) -> Iterator[Sequence[Consumer]]:
    consumers = [Consumer(settings) for _ in range(count)]
    try:
        for consumer in consumers:
            consumer.subscribe([topic])
        yield consumers
    finally:
        for consumer in consumers:
            consumer.close()


def _wait_for(consumers: Sequence[Consumer], partitions: int, *, most: int) -> None:
    """Poll until these consumers own so many partitions, none of them more than `most`."""

    def are_assigned() -> bool:
        _poll(consumers)
        owned = [len(consumer.assignment()) for consumer in consumers]
        return sum(owned) == partitions and max(owned) <= most

    wait_until(are_assigned, timeout=180, pause=0.01)


def _poll_for(consumers: Sequence[Consumer], seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        _poll(consumers)
        time.sleep(0.05)


def _poll(consumers: Sequence[Consumer]) -> None:
    for consumer in consumers:
        message = consumer.poll(0)
        if message is not None and message.error() is not None and not message.error().retriable():
            raise RuntimeError(str(message.error()))
