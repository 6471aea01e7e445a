"""Ends a broker under load again and again, and checks what its clients saw.

Each round: producers send, a group commits, and at some moment the broker is ended: by SIGKILL, or by a cut
of its disk's power (power_scenes.py). The moment is random, or that at which files of a certain name appear:
a rolled segment, a compacted one. It must start again by itself, quickly; now and then it is ended once more
right after. Clients continue where they were; what is in the log is read and compared with all that was
acknowledged and read before. At the end, after a last full pass, the checker (tests/promises) names every
anomaly.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.load import Committer, LoadError, RecordingProducer, create_topic, random_value, read_pass
from tests.promises.checker import check
from tests.promises.history import Acked, Finding, History, Partition
from tests.servers.kafkapy_process import KafkapyProcess

TOPICS = {
    "plain": {},
    "rolling": {"segment.bytes": str(1024 * 1024), "compression.type": "lz4"},
    # Every key is new, so compaction rewrites the files and must keep each record.
    "compacted": {
        "cleanup.policy": "compact",
        "segment.bytes": str(1024 * 1024),
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "200",
        "file.delete.delay.ms": "50",
    },
}
PARTITIONS = 2
MOMENTS = {"rolling": (".log",), "compacted": (".cleaned", ".swap", ".deleted")}
"""The suffixes of new files in a topic's directory that a round may wait for."""
MOMENT_SECONDS = 2.0
SETTINGS = {"log.cleaner.backoff.ms": "50"}
ROUNDS_PER_TOPICS = 25
"""A history is read in full many times: it is kept short, and a new one begun on new topics."""


@dataclass(slots=True)
class Result:
    """The result of a run."""

    seed: int
    ends: int = 0
    acked: int = 0
    seconds: float = 0.0
    slowest_start: float = 0.0
    dearest_start: float = 0.0
    """In seconds of CPU time."""
    moments: dict[str, int] = field(default_factory=dict)
    """How often the broker was ended when files of a topic appeared."""
    findings: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: ended {self.ends} times in {self.seconds:.0f} s "
            f"(at new files: {self.moments}), {self.acked} records acked, "
            f"slowest start {self.slowest_start:.2f} s, {len(self.findings)} anomalies"
        )


def run(
    broker: KafkapyProcess, *, ends: int, seed: int, end: Callable[[], object], also_twice: bool = True
) -> Result:
    """End a broker `ends` times by calling `end`.

    All random choices follow from `seed`, except the moment within the broker. With `also_twice`, the broker
    is sometimes ended again as soon as it serves."""
    chance = random.Random(seed)
    result = Result(seed)
    began = time.monotonic()
    with broker:
        while result.ends < ends and not result.findings:
            rounds = min(ROUNDS_PER_TOPICS, ends - result.ends)
            _Campaign(broker, chance, result, end, also_twice=also_twice).run(rounds)
        if broker.stop() != 0:
            raise LoadError(f"the broker does not stop in order:\n{broker.log_path.read_text()[-2000:]}")
    result.seconds = time.monotonic() - began
    return result


class _Campaign:
    """Some rounds on topics of their own."""

    def __init__(
        self,
        broker: KafkapyProcess,
        chance: random.Random,
        result: Result,
        end: Callable[[], object],
        *,
        also_twice: bool,
    ) -> None:
        self._broker = broker
        self._chance = chance
        self._result = result
        self._end = end
        self._also_twice = also_twice
        self._history: History = []
        self._suffix = result.ends
        servers = broker.bootstrap_servers
        self._partitions: list[Partition] = []
        for topic, config in TOPICS.items():
            create_topic(servers, f"{topic}-{self._suffix}", PARTITIONS, config)
            self._partitions += [(f"{topic}-{self._suffix}", index) for index in range(PARTITIONS)]
        self._ends = dict.fromkeys(self._partitions, 0)
        history = self._history
        self._producers = [
            RecordingProducer("i0", servers, history, idempotent=True),
            RecordingProducer("i1", servers, history, idempotent=True),
            RecordingProducer("retry", servers, history, idempotent=False),
            RecordingProducer("once", servers, history, idempotent=False, retries=False),
            RecordingProducer("leader", servers, history, idempotent=False, acks="1"),
        ]
        self._committer = Committer(f"group-{self._suffix}", servers, history)

    def run(self, rounds: int) -> None:
        """End the broker at least `rounds` times, then wait for all producers and read everything."""
        for number in range(rounds):
            topic = self._chance.choice([None, None, *MOMENTS])
            if topic is None:
                self._produce_until(self._at(time.monotonic() + self._chance.uniform(0.05, 1.0)))
            else:
                self._produce_until(self._when_files_appear(topic))
            self._end_and_start()
            if self._also_twice and self._chance.random() < 0.25:
                self._verify(f"between-{self._result.ends}", full=False)
                self._end_and_start()
            self._verify(f"after-{self._result.ends}", full=number % 5 == 4)
        for producer in self._producers:
            producer.flush()
            if producer.fatal is not None:
                raise LoadError(f"{producer.name} gave up: {producer.fatal}")
        self._verify("end", full=True)
        self._committer.close()
        self._result.acked += sum(isinstance(event, Acked) for event in self._history)
        self._result.findings += check(self._history)

    def _end_and_start(self) -> None:
        self._end()
        self._result.ends += 1
        started = time.monotonic()
        self._broker.start()
        self._result.slowest_start = max(self._result.slowest_start, time.monotonic() - started)
        self._result.dearest_start = max(self._result.dearest_start, self._broker.cpu_seconds)

    def _at(self, deadline: float) -> Callable[[], bool]:
        return lambda: time.monotonic() >= deadline

    def _when_files_appear(self, topic: str) -> Callable[[], bool]:
        """Return whether there is a new file, or the time is over."""
        deadline = time.monotonic() + MOMENT_SECONDS
        directory = self._broker.data / f"{topic}-{self._suffix}-{self._chance.randrange(PARTITIONS)}"
        known = _names(directory)

        def come() -> bool:
            new = [name for name in _names(directory) - known if name.endswith(MOMENTS[topic])]
            if new:
                self._result.moments[topic] = self._result.moments.get(topic, 0) + 1
            return bool(new) or time.monotonic() >= deadline

        return come

    def _produce_until(self, come: Callable[[], bool]) -> None:
        chance = self._chance
        while not come():
            for _ in range(chance.randrange(1, 40)):
                producer = chance.choice(self._producers)
                producer.send(chance.choice(self._partitions), random_value(chance, 4000))
            for producer in self._producers:
                producer.poll()
            if chance.random() < 0.05:
                partition = chance.choice(self._partitions)
                self._committer.commit(partition, chance.randrange(self._ends[partition] + 1))
            time.sleep(0.002)

    def _verify(self, reader: str, *, full: bool) -> None:
        """Read what came since the last pass and some before it, or everything."""
        starts = {partition: 0 if full else max(0, end - 300) for partition, end in self._ends.items()}
        self._ends = read_pass(self._broker.bootstrap_servers, reader, starts, self._history)
        for partition in self._partitions:
            self._committer.fetch(partition)


def _names(directory: Path) -> set[str]:
    try:
        return {entry.name for entry in os.scandir(directory)}
    except OSError:
        return set()
