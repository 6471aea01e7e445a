"""The records that the killed pipelines read, and the rows that their tables must have.

Two topics of JSON records {"id": N, "text": ...}, N counting up: `events` is deleted by age, `accounts`
compacted, with 300 keys and a null value now and then. In stretches of ids some values are not JSON.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

Place = tuple[int, int]
"""Partition and offset."""


class Load:
    """Produces many records at first, then a few all the time in a thread, across restarts."""

    def __init__(
        self, bootstrap: str, topics: list[str], *, at_once: int, seed: int, pause: float = 0.25
    ) -> None:
        """After `at_once` records come ten more every `pause` seconds."""
        self._topics, self._chance, self._pause = topics, random.Random(seed), pause
        self._number = 0
        self._stop = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        self._produce(at_once)
        assert self._producer.flush(120) == 0
        self._thread = threading.Thread(target=self._trickle, name="load")
        self._thread.start()

    def _produce(self, count: int) -> None:
        for number in range(self._number, self._number + count):
            value: str | None = json.dumps({"id": number, "text": f"text {number}"})
            kind = self._chance.random()
            if number // 4_000 % 2 and kind < 0.01:
                value = f"broken {number}"
            elif kind > 0.95:
                value = None
            for topic in self._topics:
                self._producer.produce(topic, value, f"key {self._chance.randrange(300)}")
            if number % 100 == 0:
                self._producer.poll(0)
        self._number += count

    def _trickle(self) -> None:
        while not self._stop.wait(self._pause):
            self._produce(10)

    def end(self) -> None:
        """Stop producing, and wait until everything is in the topics; the broker must be up."""
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(120) == 0


@dataclass
class Expected:
    """The rows that follow from a topic: good and bad records by place, and the last by key."""

    good: dict[Place, int | None] = field(default_factory=dict)
    bad: set[Place] = field(default_factory=set)
    last: dict[bytes, tuple[Place, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, bootstrap: str, topic: str) -> Expected:
        expected = cls()
        for message in records(bootstrap, topic):
            place, key, value = (message.partition(), message.offset()), message.key(), message.value()
            assert isinstance(key, bytes)
            if value is None:
                expected.good[place] = None
                expected.last.pop(key, None)
            elif value.startswith(b"broken"):
                expected.bad.add(place)
            else:
                number = json.loads(value)["id"]
                expected.good[place] = number
                expected.last[key] = place, number
        return expected


def records(bootstrap: str, topic: str) -> Iterator[Message]:
    """All that a topic holds now, each partition in order."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "check", "enable.auto.commit": False}
    consumer = Consumer({**settings, "enable.partition.eof": True, "auto.offset.reset": "earliest"})
    try:
        partitions = set(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        while partitions:
            message = consumer.poll(30)
            assert message is not None, f"nothing from {topic} for 30 s"
            error = message.error()
            if error is None:
                yield message
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                partitions.discard(message.partition())
    finally:
        consumer.close()
