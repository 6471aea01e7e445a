"""Kafka Streams counts words exactly once, though it and the broker are killed within transactions."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from interop.exactly_once.conftest import SEED
from interop.exactly_once.stage import Stage
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import streams_command
from interop.support.known_topics import create_topics
from tests.crash.load import RECONNECT

SOURCE: Final = Path(__file__).with_name("WordCount.java")
INPUT: Final = "lines"
OUTPUT: Final = "counts"
PARTITIONS: Final = 2
WORDS: Final = [f"word-{number}" for number in range(30)]
LINES: Final = 400
WORDS_A_LINE: Final = 8


class WordCount:
    """The program, which goes on with its state when it is started again."""

    def __init__(self, servers: str, folder: Path) -> None:
        self._command = [
            *streams_command(SOURCE),
            servers,
            "word-count",
            str(folder / "state"),
            INPUT,
            OUTPUT,
        ]
        self._log = folder / "streams.out"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(60)

    def output(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-30:])


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

    def __init__(self, servers: str) -> None:
        self.words: Counter[str] = Counter()
        self._chance = random.Random(SEED)
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


@contextmanager
def word_count(servers: str, folder: Path) -> Iterator[WordCount]:
    with skipped_without_jars():
        program = WordCount(servers, folder)
    try:
        yield program
    finally:
        program.kill()


@pytest.mark.jvm
@pytest.mark.slow
def test_each_word_is_counted_once_though_streams_and_the_broker_are_killed(
    one_broker_stage: Stage, tmp_path: Path
) -> None:
    broker = one_broker_stage.broker
    create_topics(broker.bootstrap_servers, (INPUT, OUTPUT), PARTITIONS)
    counts = Counts(broker.bootstrap_servers)
    part = LINES * WORDS_A_LINE
    with word_count(one_broker_stage.servers, tmp_path) as program:
        writer = Writer(broker.bootstrap_servers)
        program.start()
        writer.write(LINES)
        counts.read_to(part // 4)
        program.kill()
        program.start()
        counts.read_to(part)
        writer.write(LINES)
        counts.read_to(part + part // 4)
        broker.kill()
        broker.start()
        counts.read_to(part + part // 2)
        program.kill()
        program.start()
        counts.read_to(2 * part)
        assert counts.total == 2 * part, program.output()
        one_broker_stage.quiet()
        status = program.stop()
    counts.read_to(2 * part + 1, timeout=1)
    counts.close()
    assert {word: max(found) for word, found in counts.of.items()} == dict(writer.words)
    assert {word: found for word, found in counts.of.items() if found != list(range(1, len(found) + 1))} == {}
    assert status in (0, 143), program.output()
