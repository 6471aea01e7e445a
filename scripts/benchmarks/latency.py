"""One record at a time: how long until it is acknowledged, and until a consumer has it."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from scripts.benchmarks.load import Figures, Target
from scripts.benchmarks.meter import percentiles

_PATIENCE = 30.0


class LoneRecords:
    """Produces records of 100 bytes to partition 0 of a topic, one at a time."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "linger.ms": 0})
        self._topic = topic
        self._acknowledged: list[Message] = []
        self.produce()  # connects

    def send(self) -> None:
        """Produce one, and do not wait."""
        self._producer.poll(0)  # takes the reports of earlier ones
        self._acknowledged.clear()
        self._producer.produce(
            self._topic,
            b"x" * 100,
            partition=0,
            on_delivery=lambda _error, told: self._acknowledged.append(told),
        )

    def produce(self) -> float:
        """Produce one; the seconds until it was acknowledged."""
        start = time.perf_counter()
        self.send()
        while not self._acknowledged:
            self._producer.poll(1.0)
            if time.perf_counter() - start > _PATIENCE:
                raise RuntimeError("a record was not acknowledged")
        if error := self._acknowledged[0].error():
            raise RuntimeError(str(error))
        return time.perf_counter() - start

    def produce_for(self, seconds: float) -> list[float]:
        """Produce for so long; what each took."""
        end = time.perf_counter() + seconds
        return self.produce_until(lambda: time.perf_counter() > end)

    def produce_until(self, is_over: Callable[[], bool]) -> list[float]:
        """Produce until then; what each took."""
        times = []
        while not is_over():
            times.append(self.produce())
        return times

    def close(self) -> None:
        """Take the last reports, which keep the producer, and its connections, for ever otherwise."""
        self._producer.flush(_PATIENCE)


def synchronous_produce(target: Target, scale: float) -> Figures:
    """Load: each record is acknowledged before the next is sent."""
    topic = target.new_topic(1)
    records = LoneRecords(target.bootstrap_servers, topic)
    count = int(10_000 * scale)
    watch = target.stopwatch()
    times = [records.produce() for _ in range(count)]
    cost = watch.cost()
    target.delete_topic(topic)
    return {
        **percentiles(times),
        "requests/s": count / cost.seconds,
        "CPU µs/request": cost.cpu_seconds / count * 1e6,
    }


def end_to_end(target: Target, scale: float) -> Figures:
    """Load: from produce() to the waiting consumer, one record on the way at a time."""
    topic = target.new_topic(1)
    records = LoneRecords(target.bootstrap_servers, topic)
    consumer = Consumer({"bootstrap.servers": target.bootstrap_servers, "group.id": "bench"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    _receive(consumer)

    def pass_on() -> float:
        start = time.perf_counter()
        records.send()
        _receive(consumer)
        return time.perf_counter() - start

    count = int(4_000 * scale)
    watch = target.stopwatch()
    times = [pass_on() for _ in range(count)]
    cost = watch.cost()
    consumer.close()
    records.close()
    target.delete_topic(topic)
    return {**percentiles(times), "CPU µs/record": cost.cpu_seconds / count * 1e6}


def _receive(consumer: Consumer) -> None:
    """Wait for one record."""
    deadline = time.monotonic() + _PATIENCE
    while (message := consumer.poll(1.0)) is None:
        if time.monotonic() > deadline:
            raise RuntimeError("a record did not come")
    if error := message.error():
        raise RuntimeError(str(error))
