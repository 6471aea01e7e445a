"""kafkapy answers random group requests as Apache Kafka does."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import kafkapy
from interop.group_walk.side import Side
from interop.group_walk.walk import TOPIC, Step, Walk, fetch_all
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_process import KafkaProcess
from interop.support.waiting import wait_until
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest

pytestmark = pytest.mark.jvm

WALKS = 40
STEPS = 25
SETTLED = 0.06
"""Seconds after which the brokers usually have no more to say to a step; where they differ, they get more."""
SURELY_SETTLED = 2.0


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of kafkapy and of Apache Kafka, both ready for groups."""
    with skipped_without_jars():
        kafka = KafkaProcess(tmp_path_factory.mktemp("kafka"), heap="512m").start()
    with kafkapy.Broker() as ours:
        addresses = ours.bootstrap_servers, kafka.bootstrap_servers
        for address in addresses:
            admin = AdminClient({"bootstrap.servers": address})
            for created in admin.create_topics([NewTopic(name, 1) for name in (TOPIC, "other")]).values():
                created.result(30)
            make_ready(address)
        yield addresses
    kafka.stop()


def make_ready(address: str) -> None:
    """Wait until the broker coordinates groups of every partition of the offsets topic."""
    side = Side(address, "")

    def coordinates_all() -> bool:
        side.send(0, FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        for number in range(1, 300):
            side.send(number, fetch_all(f"g{number}"), 8)
        answers = side.collect(30)
        return all(shown.error == ErrorCode.NONE for number, shown in answers.items() if number)

    wait_until(coordinates_all)


@pytest.mark.parametrize("seed", range(WALKS))
def test_the_answers_are_those_of_apache_kafka(brokers: tuple[str, str], seed: int) -> None:
    ours, theirs = (Side(address, f"walk-{seed}") for address in brokers)
    walk = Walk(random.Random(seed))
    steps: list[Step] = []
    story: list[str] = []
    try:
        for number in range(STEPS):
            step = walk.next(number)
            steps.append(step)
            for side in (ours, theirs):
                side.send(number, *step.make(side.group, side.real))
            if step.member:
                walk.waiting.add(step.member)
            expected, answers = theirs.collect(SETTLED), ours.collect(SETTLED / 3)
            if step.name == "describe" and answers != expected:
                # Apache Kafka describes what it has committed, which may be a moment old.
                time.sleep(SETTLED)
                for side in (ours, theirs):
                    side.send(number, *step.make(side.group, side.real))
                expected |= theirs.collect(SURELY_SETTLED)
                answers |= ours.collect(SURELY_SETTLED)
            if answers.keys() != expected.keys():
                expected |= theirs.collect(SURELY_SETTLED)
                answers |= ours.collect(SURELY_SETTLED)
            story.append(f"{number}: {step.name}\n     kafkapy {answers}\n     Kafka   {expected}")
            assert answers == expected, "\n".join(story)
            for answered, shown in answers.items():
                walk.answered(answered, steps[answered], shown)
    finally:
        ours.close()
        theirs.close()
