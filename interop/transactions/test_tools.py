"""kafka-transactions: what it lists and describes, by its filters, and what it ends."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaException, Producer

from interop.conftest import MakeTopic
from interop.java_tools.tools import tool, tools
from interop.support.kafka_jars import kafka_jars
from interop.support.maven import JarsUnavailableError
from interop.support.waiting import OPEN_AT_MOST_MS, wait_until
from interop.transactions.test_hanging import stable_end

pytestmark = [pytest.mark.jvm, pytest.mark.capability("transactions")]


class Open(NamedTuple):
    """A transaction that is open, and one that is committed."""

    topic: str
    ongoing: str
    committed: str


@pytest.fixture
def open_one(bootstrap_servers: str, make_topic: MakeTopic) -> Iterator[Open]:
    try:
        kafka_jars()
    except JarsUnavailableError as problem:
        pytest.skip(f"Apache Kafka is not available: {problem}")
    topic = make_topic(2)
    producers = []
    for name in ("ongoing", "committed"):
        producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "transactional.id": f"{topic}-{name}",
                "transaction.timeout.ms": OPEN_AT_MOST_MS,
            }
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        for partition in range(2):
            producer.produce(topic, "x", partition=partition)
        producer.flush(30)
        producers.append(producer)
    producers[1].commit_transaction(30)
    yield Open(topic, f"{topic}-ongoing", f"{topic}-committed")
    producers[0].abort_transaction(30)


def rows(output: str) -> list[list[str]]:
    """The table that a tool has written, without its head."""
    return [line.split() for line in output.splitlines()[1:] if line.strip()]


def test_transactions_are_listed_and_described(bootstrap_servers: str, open_one: Open) -> None:
    listed, by_pattern, by_duration, described, at_rest, hanging = tools(
        bootstrap_servers,
        ("transactions", "list"),
        ("transactions", "list", "--transactional-id-pattern", f"{re.escape(open_one.topic)}-o.*"),
        ("transactions", "list", "--duration-filter", "3600000"),
        ("transactions", "describe", "--transactional-id", open_one.ongoing),
        ("transactions", "describe", "--transactional-id", open_one.committed),
        ("transactions", "find-hanging", "--topic", open_one.topic),
    )
    states = {row[0]: row[3] for row in rows(listed)}
    assert states[open_one.ongoing] == "Ongoing"
    assert states[open_one.committed] == "CompleteCommit"
    assert [row[0] for row in rows(by_pattern)] == [open_one.ongoing]
    assert open_one.ongoing not in {row[0] for row in rows(by_duration)}
    (row,) = rows(described)
    assert row[4] == "Ongoing"
    assert set(row[-1].split(",")) == {f"{open_one.topic}-0", f"{open_one.topic}-1"}
    (row,) = rows(at_rest)
    assert row[4] == "CompleteCommit"
    assert rows(hanging) == []


def test_producers_of_a_partition_are_described(bootstrap_servers: str, open_one: Open) -> None:
    described, ongoing, committed = tools(
        bootstrap_servers,
        ("transactions", "describe-producers", "--topic", open_one.topic, "--partition", "1"),
        ("transactions", "describe", "--transactional-id", open_one.ongoing),
        ("transactions", "describe", "--transactional-id", open_one.committed),
    )
    producers = {row[0]: row[1:] for row in rows(described)}
    ((_, _, open_id, open_epoch, *_),) = rows(ongoing)
    ((_, _, committed_id, committed_epoch, *_),) = rows(committed)
    assert producers.keys() == {open_id, committed_id}
    epoch, coordinator_epoch, sequence, timestamp, start_offset = producers[open_id]
    assert (epoch, coordinator_epoch, sequence, start_offset) == (open_epoch, "-1", "0", "0")
    assert abs(time.time() - int(timestamp) / 1000) < 600
    epoch, coordinator_epoch, sequence, _, start_offset = producers[committed_id]
    assert (epoch, sequence, start_offset) == (committed_epoch, "0", "None")
    assert int(coordinator_epoch) >= 0, "that of the marker"


def test_a_transaction_is_terminated_by_force(bootstrap_servers: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "transactional.id": topic,
            "transaction.timeout.ms": OPEN_AT_MOST_MS,
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, "x", partition=0)
    producer.flush(30)
    assert stable_end(bootstrap_servers, topic) == 0
    tool("transactions", bootstrap_servers, "forceTerminateTransaction", "--transactionalId", topic)
    wait_until(lambda: stable_end(bootstrap_servers, topic) == 2)
    described, producers = tools(
        bootstrap_servers,
        ("transactions", "describe", "--transactional-id", topic),
        ("transactions", "describe-producers", "--topic", topic, "--partition", "0"),
    )
    ((_, _, _, _, state, *_),) = rows(described)
    assert state in ("CompleteAbort", "Empty")
    ((*_, start_offset),) = rows(producers)
    assert start_offset == "None"
    with pytest.raises(KafkaException) as fenced:
        producer.commit_transaction(30)
    assert fenced.value.args[0].fatal(), "it would have to begin anew"
