"""New partitions get the replicas that Apache Kafka 3.9.1 gives them.

AdminUtils is asked, with and without racks.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import kafka_jars, program_command
from interop.support.zookeeper_process import RELEASE
from kafkapy.controller.assignment import assign_replicas

pytestmark = pytest.mark.jvm

CASES = 400
SEED = int(os.environ.get("KAFKAPY_SEED", str(random.SystemRandom().randrange(10**6))))


class Case(NamedTuple):
    """One question to both.

    `start` is the place of partition 0's first replica, -1 for a new topic, whose start is by chance.
    """

    seed: int
    racks: dict[int, str | None]
    start: int
    first_partition: int
    partitions: int
    replication_factor: int

    def __str__(self) -> str:
        brokers = ",".join(f"{broker}:{rack or ''}" for broker, rack in sorted(self.racks.items()))
        numbers = (self.seed, self.start, self.first_partition, self.partitions, self.replication_factor)
        return " ".join([*map(str, numbers), brokers])


class GivenNumbers(random.Random):
    """Draws these numbers."""

    def __init__(self, numbers: Iterable[int]) -> None:
        super().__init__()
        self._numbers = iter(numbers)

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return next(self._numbers)


def draw(chance: random.Random) -> Case:
    count = chance.randint(1, 12)
    ids = chance.sample(range(40), count)
    racks: dict[int, str | None] = dict.fromkeys(ids)
    if chance.random() < 0.6:
        names = [f"r{number}" for number in range(chance.randint(1, 5))]
        racks = {broker: chance.choice(names) for broker in ids}
    grows = chance.random() < 0.5
    return Case(
        seed=chance.randrange(2**40),
        racks=racks,
        start=chance.randrange(count) if grows else -1,
        first_partition=chance.randint(1, 30) if grows else 0,
        partitions=chance.randint(1, 40),
        replication_factor=chance.randint(1, count),
    )


def ours(case: Case, numbers: Sequence[int]) -> list[tuple[int, ...]]:
    """What kafkapy assigns, if chance gives these numbers."""
    return assign_replicas(
        case.racks,
        case.partitions,
        case.replication_factor,
        start_partition=case.first_partition,
        continues=sorted(case.racks)[case.start] if case.start >= 0 else None,
        chance=GivenNumbers(numbers),
    )


def test_replicas_are_assigned_as_by_apache_kafka() -> None:
    with skipped_without_jars():
        kafka_jars(RELEASE)
    print(f"KAFKAPY_SEED={SEED}")
    chance = random.Random(SEED)
    cases = [draw(chance) for _ in range(CASES)]
    run = subprocess.run(
        program_command(Path(__file__).with_name("AssignmentOracle.java"), release=RELEASE),
        input="".join(f"{case}\n" for case in cases),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    answers = run.stdout.splitlines()
    assert len(answers) == CASES
    for case, answer in zip(cases, answers, strict=True):
        start, shift, *assignment = answer.split()
        theirs = [tuple(map(int, replicas.split(","))) for replicas in assignment]
        assert ours(case, [int(start), int(shift)]) == theirs, case
