"""A word count of Kafka Streams, what writes its input, and what reads its output."""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from interop.exactly_once.streams_program import StreamsProgram, streams_program
from tests.crash.load import RECONNECT

SOURCE: Final = Path(__file__).with_name("WordCount.java")
INPUT: Final = "lines"
OUTPUT: Final = "counts"
APPLICATION: Final = "word-count"
PARTITIONS: Final = 2
WORDS: Final = [f"word-{number}" for number in range(30)]
WORDS_A_LINE: Final = 8


class Counts:
    """What a read_committed consumer is given of the output."""

    def __init__(self, servers: str) -> None:
        self.of: dict[str, list[int]] = defaultdict(list)
        """Of each word the counts, in order."""
        self.total = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "unused",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                **RECONNECT,
            }
        )
        self._consumer.assign([TopicPartition(OUTPUT, index, 0) for index in range(PARTITIONS)])

    def read_to(self, total: int, timeout: float = 90) -> None:
        """Read until there are so many, or no more come in time."""
        deadline = time.monotonic() + timeout
        while self.total < total and time.monotonic() < deadline:
            for message in self._consumer.consume(1000, 0.1):
                if message.error() is None:
                    self.of[(message.key() or b"").decode()].append(int.from_bytes(message.value() or b""))
                    self.total += 1

    def close(self) -> None:
        self._consumer.close()


class Writer:
    """Writes lines in transactions, and others in transactions that abort."""

    def __init__(self, servers: str, seed: int) -> None:
        self.words: Counter[str] = Counter()
        self._chance = random.Random(seed)
        self._producer = Producer({"bootstrap.servers": servers, "transactional.id": "writer", **RECONNECT})
        self._producer.init_transactions(60)

    def write(self, lines: int) -> None:
        for _ in range(lines // 100):
            self._transaction(20, commit=False)
            self._transaction(100, commit=True)

    def _transaction(self, lines: int, *, commit: bool) -> None:
        self._producer.begin_transaction()
        for number in range(lines):
            words = self._chance.choices(WORDS, k=WORDS_A_LINE)
            if commit:
                self.words.update(words)
            self._producer.produce(INPUT, " ".join(words), partition=number % PARTITIONS)
        if commit:
            self._producer.commit_transaction(60)
        else:
            self._producer.flush(60)
            self._producer.abort_transaction(60)


def word_count(servers: str, folder: Path, **settings: str) -> AbstractContextManager[StreamsProgram]:
    """The program, with these settings."""
    return streams_program(SOURCE, servers, APPLICATION, folder, (INPUT, OUTPUT), settings)
