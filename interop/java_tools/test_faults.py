"""Java's clients survive what a broker does wrong on purpose, and a clock that is advanced."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.java_tools.tools import consume, produce, tool
from interop.support.records import Record
from kafkapy.inprocess import Broker
from tests.faults.every_kind import OUTAGES, out, switched_on, two_directories, unmet

SENT = [Record(b"17", b"two apples"), Record(b"18", b"a pear")]
SOON = ("retries=100", "request.timeout.ms=2000", "delivery.timeout.ms=60000", "linger.ms=0")
"""The console producer tries three times only, unless told otherwise."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(clock="manual") as broker:
        broker.create_topics({"orders": 1})
        yield broker


def test_an_idempotent_producer_loses_and_doubles_nothing(broker: Broker) -> None:
    faults = switched_on(broker)
    rounds = 0
    while unmet(faults):
        assert rounds < len(faults), unmet(faults)
        produce(broker.bootstrap_servers, "orders", SENT, *SOON)
        rounds += 1
    assert [(each.key, each.value) for each in broker.records("orders")] == rounds * [
        (sent.key, sent.value) for sent in SENT
    ]


@pytest.mark.parametrize("how", OUTAGES)
def test_a_producer_outlasts_an_outage(tmp_path: Path, how: str) -> None:
    with Broker(config=two_directories(tmp_path)) as broker:
        broker.create_topics({"orders": 1})
        with out(broker, how):
            produce(broker.bootstrap_servers, "orders", SENT, *SOON)
        assert [record.value for record in broker.records("orders")] == [sent.value for sent in SENT]


def test_a_consumer_reads_on_after_faults(broker: Broker) -> None:
    for sent in SENT:
        broker.produce("orders", key=sent.key, value=sent.value)
    fetch = broker.faults.fetch()
    faults = [
        broker.faults.fetch(topic="orders").error("NOT_LEADER_OR_FOLLOWER", times=1),
        fetch.disconnect(times=1),
        fetch.torn_answer(times=1),
        broker.faults.find_coordinator().error("COORDINATOR_NOT_AVAILABLE", times=1),
    ]
    received = consume(broker.bootstrap_servers, "orders", len(SENT))
    assert [each.record.value for each in received] == [sent.value for sent in SENT]
    assert [fault.hits for fault in faults[:3]] == [1, 1, 1]


def test_offsets_of_a_group_expire_when_the_clock_is_advanced(broker: Broker) -> None:
    broker.produce("orders", key="17", value="two apples")
    arguments = ("--topic", "orders", "--from-beginning", "--max-messages", "1", "--group", "billing")
    assert tool("console-consumer", broker.bootstrap_servers, *arguments) == "two apples\n"
    broker.group("billing").committed("orders", 0, 1)
    broker.clock.advance(days=6)
    broker.group("billing").committed("orders", 0, 1, within=0)
    broker.clock.advance(days=2)
    assert tool("consumer-groups", broker.bootstrap_servers, "--list").strip() == ""
