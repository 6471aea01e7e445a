"""A broker that dies before or after any one change of its files starts again and has lost nothing."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from tests.crash.broker_process import BrokerProcess
from tests.crash.history import History, check
from tests.crash.load import RecordingProducer, create_topic, random_value, read_pass

POINTS = int(os.environ.get("KAFKAPY_CRASH_POINTS", "14"))
"""Under load. The first start has one for each change it makes, up to as many."""
SEED = int(os.environ.get("KAFKAPY_SEED", str(random.SystemRandom().randrange(10**6))))
LOAD_SECONDS = 1.2
NEVER = "before:0"


def dying(data: Path, at: str) -> BrokerProcess:
    """A broker that dies there."""
    counter = data.with_suffix(".count")
    environment = {"KAFKAPY_CRASH_AT": at, "KAFKAPY_CRASH_COUNT": str(counter)}
    return BrokerProcess(data, program=("-m", "tests.crash.crash_driver"), environment=environment)


def changes(data: Path) -> int:
    """How many changes the broker made before it died."""
    return data.with_suffix(".count").stat().st_size


def starts_and_serves(data: Path) -> None:
    """A broker on this directory takes a topic and records."""
    with BrokerProcess(data) as broker:
        assert broker.start() <= 3.0
        use(broker, 0.0)


def use(broker: BrokerProcess, seconds: float, history: History | None = None) -> None:
    """Create a topic, produce until the broker is gone or the time is over, and read all of it back."""
    history = [] if history is None else history
    chance = random.Random(SEED)
    servers = broker.bootstrap_servers
    partitions = [("topic", 0), ("topic", 1)]
    settings = {"segment.bytes": "1048576"}
    try:
        create_topic(servers, "topic", 2, settings)
    except KafkaException:
        if not broker.dies:
            raise
        # It died while it made the topic.
        broker.kill()
        broker.restart_as_itself()
        create_topic(servers, "topic", 2, settings)
    producer = RecordingProducer(f"p{len(history)}", servers, history, idempotent=True)
    deadline = time.monotonic() + seconds
    while broker.is_running and time.monotonic() < deadline:
        for _ in range(20):
            producer.send(chance.choice(partitions), random_value(chance, 20_000))
        producer.poll()
        time.sleep(0.005)
    if broker.dies:
        broker.kill()
        broker.restart_as_itself()
    producer.send(partitions[0], b"the last one")
    producer.flush()
    assert producer.fatal is None, producer.fatal
    read_pass(servers, "reader", dict.fromkeys(partitions, 0), history)
    findings = check(history)
    assert not findings, "\n".join(map(str, findings[:10]))


@pytest.mark.slow
def test_a_first_start_that_dies_anywhere_is_followed_by_one_that_works(tmp_path: Path) -> None:
    data = tmp_path / "whole"
    with dying(data, NEVER) as broker:
        broker.start()
    total = changes(data)
    assert total > 3
    chance = random.Random(SEED)
    for number in sorted(chance.sample(range(1, total + 1), min(total, POINTS))):
        at = f"{chance.choice(('before', 'after'))}:{number}"
        data = tmp_path / at.replace(":", "-")
        with dying(data, at) as broker:
            broker.launch()
            assert broker.wait(20) is not None, f"did not die {at}"
        try:
            starts_and_serves(data)
        except AssertionError as error:
            raise AssertionError(f"died {at} of {total} changes, KAFKAPY_SEED={SEED}: {error}") from error


@pytest.mark.slow
def test_a_broker_whose_syncs_fail_acknowledges_nothing_more(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    for turn in range(max(1, POINTS // 5)):
        at = f"sync:{chance.randrange(20, 100)}"
        with dying(tmp_path / f"data-{turn}", at) as broker:
            broker.start()
            try:
                use(broker, LOAD_SECONDS)
            except AssertionError as error:
                raise AssertionError(f"{at}, KAFKAPY_SEED={SEED}: {error}") from error


@pytest.mark.slow
def test_a_broker_that_dies_at_a_change_under_load_has_lost_nothing(tmp_path: Path) -> None:
    data = tmp_path / "whole"
    with dying(data, NEVER) as broker:
        broker.start()
        first = changes(data)
        broker.dies = False
        use(broker, LOAD_SECONDS)
        total = changes(data)
    chance = random.Random(SEED)
    for turn in range(POINTS):
        at = f"{chance.choice(('before', 'after'))}:{chance.randrange(first + 1, total)}"
        with dying(tmp_path / f"data-{turn}", at) as broker:
            broker.start()
            try:
                use(broker, LOAD_SECONDS * 3)
            except AssertionError as error:
                raise AssertionError(f"died {at} of {total} changes, KAFKAPY_SEED={SEED}: {error}") from error
