"""Kills a broker under load, again and again, and judges what its clients saw.

Each round: producers send, a group commits, and at a random moment the broker gets SIGKILL. It must start
again by itself, quickly; clients go on where they were; what is in the log is read and compared with all that
was acknowledged and read before. At the end, after a last full pass, history.py names every anomaly.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.broker_process import BrokerProcess
from tests.crash.history import Acked, Finding, History, Partition, check
from tests.crash.load import Committer, LoadError, RecordingProducer, create_topic, random_value, read_pass

TOPICS = {
    "plain": {},
    "rolling": {"segment.bytes": str(1024 * 1024), "compression.type": "lz4"},
}
PARTITIONS = 2
ROUNDS_PER_TOPICS = 25
"""A history is read in full many times: it is kept short, and a new one begun on new topics."""


@dataclass(slots=True)
class Result:
    """What came of a run."""

    seed: int
    kills: int = 0
    acked: int = 0
    seconds: float = 0.0
    slowest_start: float = 0.0
    findings: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.kills} kills in {self.seconds:.0f} s, {self.acked} records acked, "
            f"slowest start {self.slowest_start:.2f} s, {len(self.findings)} anomalies"
        )


def run(data: Path, *, kills: int, seed: int, settings: dict[str, str] | None = None) -> Result:
    """Kill a broker `kills` times. Whatever is random follows from `seed`, but for the moment of the kill
    within
    the broker."""
    chance = random.Random(seed)
    result = Result(seed)
    began = time.monotonic()
    with BrokerProcess(data, settings=settings) as broker:
        broker.start()
        while result.kills < kills and not result.findings:
            rounds = min(ROUNDS_PER_TOPICS, kills - result.kills)
            _Campaign(broker, chance, result).run(rounds)
        if broker.stop() != 0:
            raise LoadError(f"the broker does not stop in order:\n{broker.log.read_text()[-2000:]}")
    result.seconds = time.monotonic() - began
    return result


class _Campaign:
    """Some rounds on topics of their own."""

    def __init__(self, broker: BrokerProcess, chance: random.Random, result: Result) -> None:
        self._broker = broker
        self._chance = chance
        self._result = result
        self._history: History = []
        suffix = result.kills
        servers = broker.bootstrap_servers
        self._partitions: list[Partition] = []
        for topic, config in TOPICS.items():
            create_topic(servers, f"{topic}-{suffix}", PARTITIONS, config)
            self._partitions += [(f"{topic}-{suffix}", index) for index in range(PARTITIONS)]
        self._ends = dict.fromkeys(self._partitions, 0)
        history = self._history
        self._producers = [
            RecordingProducer("i0", servers, history, idempotent=True),
            RecordingProducer("i1", servers, history, idempotent=True),
            RecordingProducer("retry", servers, history, idempotent=False),
            RecordingProducer("once", servers, history, idempotent=False, retries=False),
            RecordingProducer("leader", servers, history, idempotent=False, acks="1"),
        ]
        self._committer = Committer(f"group-{suffix}", servers, history)

    def run(self, rounds: int) -> None:
        """Kill `rounds` times, then let everything come to rest and read it all."""
        for number in range(rounds):
            self._produce_until(time.monotonic() + self._chance.uniform(0.05, 1.0))
            self._broker.kill()
            self._result.kills += 1
            self._result.slowest_start = max(self._result.slowest_start, self._broker.start())
            self._verify(f"after-kill-{self._result.kills}", full=number % 5 == 4)
        for producer in self._producers:
            producer.flush()
            if producer.fatal is not None:
                raise LoadError(f"{producer.name} gave up: {producer.fatal}")
        self._verify("end", full=True)
        self._committer.close()
        self._result.acked += sum(isinstance(event, Acked) for event in self._history)
        self._result.findings += check(self._history)

    def _produce_until(self, deadline: float) -> None:
        chance = self._chance
        while time.monotonic() < deadline:
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
