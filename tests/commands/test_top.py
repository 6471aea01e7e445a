"""`kafkapy top`: what happened in a cluster between two moments."""

from __future__ import annotations

import os
import pty
import select
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafkapy import Broker
from kafkapy.commands.cluster_sample import ClusterSample, changes
from tests.commands.conftest import Run, RunJson

_BROKERS = [{"broker_id": 1, "host": "a", "port": 1}, {"broker_id": 2, "host": "b", "port": 2}]


def sample(at: float, **parts: Any) -> ClusterSample:
    """A cluster whose two brokers lead a partition each, or what `parts` say."""
    given: dict[str, Any] = {
        "leaders": {("orders", 0): 1, ("orders", 1): 2},
        "ends": {("orders", 0): 0, ("orders", 1): 0},
        "sizes": {("orders", 0): 0, ("orders", 1): 0},
        "groups": {},
        **parts,
    }
    return ClusterSample(at, _BROKERS, **given)


def group(lag: int) -> dict[str, dict[str, Any]]:
    return {"shop": {"type": "classic", "state": "Empty", "lag": lag}}


def test_rates_are_sums_of_partitions_by_topic_and_by_leader() -> None:
    after = sample(
        12.0, ends={("orders", 0): 100, ("orders", 1): 20}, sizes={("orders", 0): 4000, ("orders", 1): 0}
    )
    found = changes(sample(10.0), after)
    (topic,) = found["topics"]
    assert topic == {
        "topic": "orders",
        "partitions": 2,
        "records_per_second": 60.0,
        "bytes": 4000,
        "bytes_per_second": 2000.0,
    }
    assert [broker["records_per_second"] for broker in found["brokers"]] == [50.0, 10.0]
    assert [broker["bytes_per_second"] for broker in found["brokers"]] == [2000.0, 0.0]


def test_a_log_that_became_smaller_has_no_negative_rate() -> None:
    before = sample(
        0.0, sizes={("orders", 0): 900, ("orders", 1): 0}, ends={("orders", 0): 5, ("orders", 1): 0}
    )
    (topic,) = changes(before, sample(1.0))["topics"]
    assert (topic["bytes_per_second"], topic["records_per_second"]) == (0.0, 0.0)


def test_a_cluster_that_does_not_tell_sizes_has_none() -> None:
    (topic,) = changes(sample(0.0, sizes=None), sample(1.0, sizes=None))["topics"]
    assert (topic["bytes"], topic["bytes_per_second"]) == (None, None)


def test_a_partition_without_a_leader_counts_for_its_topic_alone() -> None:
    leaders = {("orders", 0): None, ("orders", 1): 2}
    found = changes(sample(0.0), sample(1.0, leaders=leaders, ends={("orders", 1): 3}))
    assert found["topics"][0]["partitions"] == 2
    assert [broker["leads"] for broker in found["brokers"]] == [0, 1]


def test_a_groups_trend_is_how_its_lag_grows() -> None:
    found = changes(sample(0.0, groups=group(30)), sample(2.0, groups=group(10)))
    assert found["groups"][0]["lag_per_second"] == -10.0
    new = changes(sample(0.0), sample(2.0, groups=group(10)))
    assert new["groups"][0]["lag_per_second"] == 0.0


def writing(broker: Broker, until: threading.Event) -> threading.Thread:
    def write() -> None:
        while not until.wait(0.01):
            broker.produce("busy", value="two apples")

    thread = threading.Thread(target=write)
    thread.start()
    return thread


@pytest.fixture(scope="module")
def busy(broker: Broker) -> Iterator[Broker]:
    """A topic that is written to, one that is not, and a group that does not read."""
    broker.create_topics({"busy": 2, "idle": 1})
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "slow"})
    consumer.commit(offsets=[TopicPartition("busy", 0, 0)], asynchronous=False)
    consumer.close()
    until = threading.Event()
    thread = writing(broker, until)
    yield broker
    until.set()
    thread.join()


@pytest.mark.usefixtures("busy")
def test_top_shows_once_what_is_written_and_not_read(kafkapy_json: RunJson) -> None:
    found = kafkapy_json("top", "--once", "--interval", "1")
    assert found["topics"][0]["topic"] == "busy"
    assert found["topics"][0]["records_per_second"] > 0
    assert found["topics"][0]["bytes_per_second"] > 0
    (slow,) = (group for group in found["groups"] if group["group"] == "slow")
    assert slow["lag"] > 0
    assert slow["lag_per_second"] > 0
    assert found["brokers"][0]["leads"] >= 3


def test_the_order_and_the_number_of_rows_are_chosen(
    busy: Broker, kafkapy_json: RunJson, kafkapy: Run
) -> None:
    found = kafkapy_json("top", "--once", "--interval", "0.1", "--sort", "name", "--limit", "1", "--internal")
    assert [topic["topic"] for topic in found["topics"]] == ["__consumer_offsets"]
    lines = kafkapy("top", "--once", "--interval", "0.1").stdout.splitlines()
    assert "0 partitions under-replicated, 0 without a leader" in lines[0]
    assert [line.split()[0] for line in lines if line.endswith(("SIZE", "TREND"))] == [
        "TOPIC",
        "GROUP",
        "BROKER",
    ]


def test_keys_choose_the_order_on_a_terminal(busy: Broker) -> None:
    command = [sys.executable, "-m", "kafkapy", "top", "--interval", "0.2"]
    command += ["--bootstrap-server", busy.bootstrap_servers]
    child, terminal = pty.fork()
    if not child:
        os.environ.update(TERM="xterm-256color", COLUMNS="120", LINES="50", PYTHONPATH=str(Path.cwd()))
        os.execv(sys.executable, command)
    shown, pressed, deadline = b"", [b"n", b"q"], time.monotonic() + 60
    expected = [b"topics, by records", b"topics, by name"]
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 0.2)[0]:
            continue
        try:
            shown += os.read(terminal, 65536)
        except OSError:  # it has ended
            break
        if pressed and expected[0] in shown:
            os.write(terminal, pressed.pop(0))
            expected.pop(0)
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert (os.waitstatus_to_exitcode(status), pressed) == (0, []), shown.decode(errors="replace")
