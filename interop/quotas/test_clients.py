"""Stock clients are throttled, and show for how long."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, ThrottleEvent
from confluent_kafka import TopicPartition as Position

from interop.java_tools.tools import tool
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.waiting import wait_until

RATE = 20_000
RECORD = b"x" * 10_000

SetQuota = Callable[[str, str], None]


@pytest.fixture
def set_quota(bootstrap_servers: str) -> Iterator[SetQuota]:
    """Sets a quota of a client id with kafka-configs; it is removed after the test."""
    quotas: list[tuple[str, str]] = []

    def alter(change: str, client_id: str) -> None:
        entity = ("--entity-type", "clients", "--entity-name", client_id)
        with skipped_without_jars():
            tool("configs", bootstrap_servers, "--alter", *entity, *change.split())

    def set_one(quota: str, client_id: str) -> None:
        alter(f"--add-config {quota}={RATE}", client_id)
        quotas.append((quota, client_id))

    yield set_one
    for quota, client_id in quotas:
        alter(f"--delete-config {quota}", client_id)


def test_librdkafka_shows_the_throttle_times_of_a_producer_and_a_consumer(
    bootstrap_servers: str, make_topic: Callable[..., str], name: str, set_quota: SetQuota
) -> None:
    topic = make_topic()
    set_quota("producer_byte_rate", name)
    set_quota("consumer_byte_rate", f"{name}-reader")
    events: list[ThrottleEvent] = []
    statistics: list[int] = []

    def note(text: str) -> None:
        brokers = json.loads(text)["brokers"].values()
        statistics.extend(broker["throttle"]["max"] for broker in brokers if "throttle" in broker)

    common = {"bootstrap.servers": bootstrap_servers, "throttle_cb": events.append}
    writer = {"client.id": name, "batch.size": 20_000, "statistics.interval.ms": 200, "stats_cb": note}
    producer = Producer({**common, **writer})
    for _ in range(25):  # RATE allows 20 at once
        producer.produce(topic, RECORD, partition=0)
    assert producer.flush(60) == 0
    wait_until(lambda: producer.poll(0.1) is not None and max(statistics, default=0) > 1000)
    assert max(event.throttle_time for event in events) > 1

    events.clear()
    reader = {"client.id": f"{name}-reader", "group.id": name, "auto.offset.reset": "earliest"}
    consumer = Consumer({**common, **reader})
    consumer.assign([Position(topic, 0, 0)])
    values: list[bytes | None] = []
    while len(values) < 25:
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        values.append(message.value())
    assert values == [RECORD] * 25
    wait_until(lambda: consumer.poll(0.1) is None and bool(events))
    consumer.close()
    assert max(event.throttle_time for event in events) > 0.5


def test_javas_producer_shows_its_throttle_time(
    bootstrap_servers: str, make_topic: Callable[..., str], name: str, set_quota: SetQuota
) -> None:
    topic = make_topic()
    set_quota("producer_byte_rate", name)
    records = ["--num-records", "25", "--record-size", str(len(RECORD)), "--throughput", "-1"]
    settings = [f"client.id={name}", f"bootstrap.servers={bootstrap_servers}"]
    arguments = ["--topic", topic, *records, "--print-metrics", "--command-property", *settings]
    shown = tool("producer-perf-test", bootstrap_servers, *arguments)
    found = re.search(r"produce-throttle-time-max:\S*\s*:\s*([\d.]+)", shown)
    assert found, shown
    assert float(found[1]) > 1000
