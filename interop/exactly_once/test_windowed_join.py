"""Kafka Streams joins two topics in windows, exactly once, under kills.

Both it and the broker are killed.
"""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from interop.exactly_once.conftest import SEED
from interop.exactly_once.stage import Stage
from interop.exactly_once.streams_program import PROTOCOLS, streams_program
from interop.support.known_topics import create_topics
from tests.crash.load import RECONNECT

SOURCE: Final = Path(__file__).with_name("WindowedJoin.java")
LEFT: Final = "left"
RIGHT: Final = "right"
OUTPUT: Final = "pairs"
PARTITIONS: Final = 3
WINDOW_MS: Final = 5_000
KEYS: Final = [f"key-{number}" for number in range(20)]
RECORDS: Final = 400
"""The records of each topic in a part of the input."""
STEP_MS: Final = 100


class Events:
    """What is written to the two topics, and the pairs that it makes."""

    def __init__(self, servers: str) -> None:
        self._chance = random.Random(SEED)
        self._time = time.time_ns() // 1_000_000 - 3_600_000
        self._texts: dict[str, dict[str, list[tuple[str, int]]]] = {
            LEFT: defaultdict(list),
            RIGHT: defaultdict(list),
        }
        self._count = 0
        # Kafka Streams finds the partition of a key as Java's producer does.
        settings = {"bootstrap.servers": servers, "partitioner": "murmur2", "enable.idempotence": True}
        self._producer = Producer({**settings, **RECONNECT})

    def write(self) -> None:
        """Write a part of the input."""
        for _ in range(RECORDS):
            for topic in (LEFT, RIGHT):
                self._time += self._chance.randrange(STEP_MS)
                self._count += 1
                key, text = self._chance.choice(KEYS), f"{topic}-{self._count}"
                self._texts[topic][key].append((text, self._time))
                if topic == LEFT:
                    partition = self._count % PARTITIONS
                    self._producer.produce(LEFT, f"{key}:{text}", partition=partition, timestamp=self._time)
                else:
                    self._producer.produce(RIGHT, text, key, timestamp=self._time)
        assert self._producer.flush(60) == 0

    def pairs(self) -> Counter[tuple[str, str]]:
        """The key and the texts of each pair that is in a window."""
        return Counter(
            (key, f"{left}+{right}")
            for key in KEYS
            for left, left_ms in self._texts[LEFT][key]
            for right, right_ms in self._texts[RIGHT][key]
            if abs(left_ms - right_ms) <= WINDOW_MS
        )


class Pairs:
    """The pairs that a read_committed consumer is given of the output."""

    def __init__(self, servers: str) -> None:
        self.seen: Counter[tuple[str, str]] = Counter()
        settings = {"bootstrap.servers": servers, "group.id": "unused", "enable.auto.commit": False}
        self._consumer = Consumer({**settings, "isolation.level": "read_committed", **RECONNECT})
        self._consumer.assign([TopicPartition(OUTPUT, index, 0) for index in range(PARTITIONS)])

    def read_to(self, total: int, timeout: float = 90) -> None:
        """Read until there are so many, or no more come in time."""
        deadline = time.monotonic() + timeout
        while self.seen.total() < total and time.monotonic() < deadline:
            for message in self._consumer.consume(1000, 0.1):
                if message.error() is None:
                    self.seen[(message.key() or b"").decode(), (message.value() or b"").decode()] += 1

    def close(self) -> None:
        self._consumer.close()


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_pair_is_joined_once_though_streams_and_the_broker_are_killed(
    one_broker_stage: Stage, tmp_path: Path, protocol: str
) -> None:
    broker = one_broker_stage.broker
    create_topics(broker.bootstrap_servers, (LEFT, RIGHT, OUTPUT), PARTITIONS)
    events, pairs = Events(broker.bootstrap_servers), Pairs(broker.bootstrap_servers)
    with streams_program(
        SOURCE, one_broker_stage.servers, "join", tmp_path, (LEFT, RIGHT, OUTPUT), PROTOCOLS[protocol]
    ) as program:
        events.write()
        program.start()
        pairs.read_to(1)
        program.kill()
        program.start()
        pairs.read_to(events.pairs().total())
        events.write()
        pairs.read_to(pairs.seen.total() + 1)
        broker.kill()
        broker.start()
        expected = events.pairs()
        pairs.read_to(expected.total())
        one_broker_stage.quiet()
        status = program.stop()
        assert status in (0, 143), program.output()
    pairs.read_to(expected.total() + 1, timeout=1)
    pairs.close()
    assert pairs.seen == expected, program.output()
