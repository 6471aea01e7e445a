"""A word count of Kafka Streams, what writes its input, and what reads its output."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import streams_command
from tests.crash.load import RECONNECT

SOURCE: Final = Path(__file__).with_name("WordCount.java")
INPUT: Final = "lines"
OUTPUT: Final = "counts"
APPLICATION: Final = "word-count"
PROTOCOLS: Final[Mapping[str, Mapping[str, str]]] = {
    "classic": {
        "group.protocol": "classic",
        "consumer.session.timeout.ms": "3000",
        "consumer.heartbeat.interval.ms": "500",
    },
    "streams": {"group.protocol": "streams"},
}
"""The settings of the application for each protocol of groups; those of streams groups are the broker's."""
PARTITIONS: Final = 2
WORDS: Final = [f"word-{number}" for number in range(30)]
WORDS_A_LINE: Final = 8


class WordCount:
    """The program, which goes on with its state when it is started again."""

    def __init__(self, servers: str, folder: Path, settings: Mapping[str, str]) -> None:
        folder.mkdir(exist_ok=True)
        self._command = [
            *streams_command(SOURCE),
            servers,
            APPLICATION,
            str(folder / "state"),
            INPUT,
            OUTPUT,
            *(f"{name}={value}" for name, value in settings.items()),
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

    def lines(self) -> list[str]:
        """What it has printed."""
        return self._log.read_text(errors="replace").splitlines() if self._log.exists() else []

    def output(self) -> str:
        return "\n".join(self.lines()[-30:])


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


@contextmanager
def word_count(servers: str, folder: Path, **settings: str) -> Iterator[WordCount]:
    """The program, which is killed in the end; it is not started.

    In names of settings _ stands for a dot.
    """
    with skipped_without_jars():
        program = WordCount(
            servers, folder, {name.replace("_", "."): value for name, value in settings.items()}
        )
    try:
        yield program
    finally:
        program.kill()
