"""A broker that dies around any change of its files starts again and has lost nothing.

It dies before or after any one change.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from tests.crash.kill_harness import TOPICS
from tests.crash.load import RecordingProducer, create_topic, random_value, read_pass
from tests.crash.results import note
from tests.promises.checker import check
from tests.promises.history import Acked, History
from tests.servers.kafkapy_process import KafkapyProcess

POINTS = int(os.environ.get("KAFKAPY_CRASH_POINTS", "8"))
"""Under load. The first start has one for each change it makes, up to as many."""
SEED = int(os.environ.get("KAFKAPY_SEED", str(random.SystemRandom().randrange(10**6))))
LOAD_SECONDS = 1.2
COMPACTED = TOPICS["compacted"]
NEVER = "before:any:0"
SETTINGS = {"log.cleaner.backoff.ms": "50"}


def dying(folder: Path, at: str) -> KafkapyProcess:
    """A broker that dies at this crash point."""
    counter = folder.with_suffix(".count")
    environment = {"KAFKAPY_CRASH_AT": at, "KAFKAPY_CRASH_COUNT": str(counter)}
    program = ("-m", "tests.crash.crash_driver")
    return KafkapyProcess(folder, properties=SETTINGS, program=program, environment=environment)


def changes(folder: Path) -> Counter[str]:
    """How many changes of each operation the broker has made."""
    return Counter(folder.with_suffix(".count").read_text().split())


def some_points(first: Counter[str], last: Counter[str], count: int) -> list[str]:
    """Moments between two counts of changes, each operation as often as any other."""
    chance = random.Random(SEED)
    operations = sorted(operation for operation in last if last[operation] > first[operation])
    points = []
    for _ in range(count):
        operation = chance.choice(operations)
        number = chance.randrange(first[operation] + 1, last[operation] + 1)
        points.append(f"{chance.choice(('before', 'after'))}:{operation}:{number}")
    return points


def starts_and_serves(folder: Path) -> None:
    """A broker in this folder takes a topic and records."""
    with KafkapyProcess(folder) as broker:
        assert broker.cpu_seconds <= 3.0
        use(broker, 0.0)


def use(broker: KafkapyProcess, seconds: float, *, dies: bool = False) -> int:
    """Produce until the broker is gone or the time is over; the acknowledged records.

    Topics are created first, and all of it is read back, from one that `dies` after it was started as itself.
    """
    history: History = []
    chance = random.Random(SEED)
    servers = broker.bootstrap_servers
    partitions = [("topic", 0), ("topic", 1), ("compacted", 0)]
    try:
        _create_topics(servers)
    except KafkaException:
        if not dies:
            raise
        # It died while it made the topics.
        dies = False
        broker.restart_as_itself()
        _create_topics(servers)
    producer = RecordingProducer("p", servers, history, idempotent=True)
    deadline = time.monotonic() + seconds
    while broker.running and time.monotonic() < deadline:
        for _ in range(20):
            producer.send(chance.choice(partitions), random_value(chance, 20_000))
        producer.poll()
        time.sleep(0.005)
    if dies:
        broker.restart_as_itself()
    producer.send(partitions[0], b"the last one")
    producer.flush()
    assert producer.fatal is None, producer.fatal
    read_pass(servers, "reader", dict.fromkeys(partitions, 0), history)
    findings = check(history)
    assert not findings, "\n".join(map(str, findings[:10]))
    return sum(isinstance(event, Acked) for event in history)


def _create_topics(servers: str) -> None:
    create_topic(servers, "topic", 2, {"segment.bytes": "1048576"})
    create_topic(servers, "compacted", 1, COMPACTED)


@pytest.mark.slow
def test_a_first_start_that_dies_anywhere_is_followed_by_one_that_works(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    with dying(whole, NEVER):
        total = changes(whole)
    assert total.total() > 3
    points = some_points(Counter(), total, POINTS)
    for at in sorted(set(points)):
        folder = tmp_path / at.replace(":", "-")
        with dying(folder, at).killed_at_end() as broker:
            broker.launch()
            assert broker.wait(20) is not None, f"did not die {at}"
        try:
            starts_and_serves(folder)
        except AssertionError as error:
            raise AssertionError(f"died {at} of {total}, KAFKAPY_SEED={SEED}: {error}") from error
    note("R1", "death at a change of a file, first start", tried=len(set(points)))


@pytest.mark.slow
def test_a_broker_whose_syncs_fail_acknowledges_nothing_more(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    for turn in range(max(1, POINTS // 5)):
        at = f"fail:sync:{chance.randrange(20, 100)}"
        with dying(tmp_path / str(turn), at) as broker:
            try:
                use(broker, LOAD_SECONDS, dies=True)
            except AssertionError as error:
                raise AssertionError(f"{at}, KAFKAPY_SEED={SEED}: {error}") from error


@pytest.mark.slow
def test_a_broker_that_dies_at_a_change_under_load_has_lost_nothing(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    with dying(whole, NEVER) as broker:
        first = changes(whole)
        use(broker, LOAD_SECONDS)
        total = changes(whole)
    acknowledged = 0
    points = some_points(first, total, POINTS)
    for turn, at in enumerate(points):
        with dying(tmp_path / str(turn), at) as broker:
            try:
                acknowledged += use(broker, LOAD_SECONDS * 3, dies=True)
            except AssertionError as error:
                raise AssertionError(f"died {at} of {total}, KAFKAPY_SEED={SEED}: {error}") from error
    operations = sorted({at.split(":")[1] for at in points})
    note("R1", "death at a change of a file", tried=POINTS, acknowledged=acknowledged, operations=operations)
