"""A broker that is killed at any moment starts again and has lost nothing."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.crash.kill_harness import SETTINGS, run
from tests.crash.load import RecordingProducer, create_topic, read_pass
from tests.crash.results import note
from tests.promises.checker import check
from tests.promises.history import Anomaly, History
from tests.servers.kafkapy_process import KafkapyProcess

KILLS = int(os.environ.get("KAFKAPY_KILLS", "12"))
SEED = int(os.environ.get("KAFKAPY_SEED", str(random.SystemRandom().randrange(10**6))))


def test_what_a_broker_loses_is_noticed(tmp_path: Path) -> None:
    partition = ("topic", 0)
    history: History = []
    with KafkapyProcess(tmp_path, properties={"durability": "os"}) as broker:
        create_topic(broker.bootstrap_servers, partition[0], 1, {})
        producer = RecordingProducer("p", broker.bootstrap_servers, history, idempotent=True)
        for number in range(100):
            producer.send(partition, b"%d" % number)
        producer.flush()
        broker.kill()
        log = tmp_path / "data" / "topic-0" / f"{0:020d}.log"
        log.write_bytes(log.read_bytes()[:-1])
        broker.start()
        read_pass(broker.bootstrap_servers, "reader", {partition: 0}, history)
    assert Anomaly.LOST_ACKED in {finding.anomaly for finding in check(history)}


def test_a_topic_is_there_when_the_broker_is_killed_as_soon_as_its_creation_is_answered(
    tmp_path: Path,
) -> None:
    partitions = [("topic", index) for index in range(300)]
    history: History = []
    with KafkapyProcess(tmp_path) as broker:
        create_topic(broker.bootstrap_servers, "topic", len(partitions), {})
        broker.kill()
        broker.start()
        producer = RecordingProducer("p", broker.bootstrap_servers, history, idempotent=True)
        for partition in partitions:
            producer.send(partition, b"value")
        producer.flush()
        broker.kill()
        broker.start()
        ends = read_pass(broker.bootstrap_servers, "reader", dict.fromkeys(partitions, 0), history)
    assert set(ends.values()) == {1}
    assert check(history) == []


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_the_broker_is_killed(tmp_path: Path) -> None:
    broker = KafkapyProcess(tmp_path, properties=SETTINGS)
    result = run(broker, ends=KILLS, seed=SEED, end=broker.kill)
    print(result)
    note(
        "R1",
        "SIGKILL at random moments",
        tried=result.ends,
        acknowledged=result.acked,
        slowest_start_s=round(result.slowest_start, 2),
        dearest_start_cpu_s=round(result.dearest_start, 2),
    )
    assert not result.findings, "\n".join([f"KAFKAPY_SEED={SEED}", *map(str, result.findings[:20])])
    assert result.ends >= KILLS
    assert result.acked > KILLS * 20
    assert result.dearest_start <= 3.0
