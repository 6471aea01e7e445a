"""One record at a time: how long until it is acknowledged, and until a consumer has it."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from scripts.benchmarks.load import Figures, Target
from scripts.benchmarks.meter import percentile

_VALUE = b"x" * 100


def synchronous_produce(target: Target, scale: float) -> Figures:
    """Load: each record is acknowledged before the next is sent."""
    topic = target.new_topic(1)
    producer = patient_producer(target.bootstrap_servers)
    acknowledged: list[Message] = []
    times: list[float] = []
    count = int(10_000 * scale)
    produce_one(producer, topic, acknowledged)
    watch = target.stopwatch()
    for _ in range(count):
        start = time.perf_counter()
        produce_one(producer, topic, acknowledged)
        times.append(time.perf_counter() - start)
    cost = watch.cost()
    target.delete_topic(topic)
    return {
        "p50 ms": percentile(times, 0.5) * 1000,
        "p99 ms": percentile(times, 0.99) * 1000,
        "requests/s": count / cost.seconds,
        "CPU µs/request": cost.cpu_seconds / count * 1e6,
    }


def acknowledgements(bootstrap_servers: str, topic: str, *, seconds: float) -> list[float]:
    """How long each of the records took that were produced one by one for so many seconds."""
    producer = patient_producer(bootstrap_servers)
    acknowledged: list[Message] = []
    times: list[float] = []
    produce_one(producer, topic, acknowledged)
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        produce_one(producer, topic, acknowledged)
        times.append(time.perf_counter() - start)
    return times


def end_to_end(target: Target, scale: float) -> Figures:
    """Load: from produce() to the waiting consumer, one record on the way at a time."""
    topic = target.new_topic(1)
    producer = patient_producer(target.bootstrap_servers)
    consumer = Consumer({"bootstrap.servers": target.bootstrap_servers, "group.id": "bench"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    times: list[float] = []
    count = int(4_000 * scale)
    _send_and_receive(producer, consumer, topic)
    watch = target.stopwatch()
    for _ in range(count):
        start = time.perf_counter()
        _send_and_receive(producer, consumer, topic)
        times.append(time.perf_counter() - start)
    cost = watch.cost()
    producer.flush(30)
    consumer.close()
    target.delete_topic(topic)
    return {
        "p50 ms": percentile(times, 0.5) * 1000,
        "p99 ms": percentile(times, 0.99) * 1000,
        "CPU µs/record": cost.cpu_seconds / count * 1e6,
    }


def patient_producer(bootstrap_servers: str) -> Producer:
    """A producer for `produce_one`."""
    return Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "linger.ms": 0})


def produce_one(producer: Producer, topic: str, acknowledged: list[Message]) -> None:
    """Produce one record and wait until it is acknowledged; `acknowledged` is for its report."""
    acknowledged.clear()
    producer.produce(topic, _VALUE, partition=0, on_delivery=lambda _error, told: acknowledged.append(told))
    deadline = time.monotonic() + 30
    while not acknowledged:
        producer.poll(1.0)
        if time.monotonic() > deadline:
            raise RuntimeError("a record was not acknowledged")
    if error := acknowledged[0].error():
        raise RuntimeError(str(error))


def _send_and_receive(producer: Producer, consumer: Consumer, topic: str) -> None:
    producer.produce(topic, _VALUE, partition=0)
    deadline = time.monotonic() + 30
    while (message := consumer.poll(1.0)) is None:
        producer.poll(0)
        if time.monotonic() > deadline:
            raise RuntimeError("a record did not come")
    producer.poll(0)
    if error := message.error():
        raise RuntimeError(str(error))
