"""kafka-transactions ends a transaction that hangs.

No coordinator knows it, and nobody else would end it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import pytest
from confluent_kafka import Consumer, IsolationLevel, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)

from interop.conftest import MakeTopic
from interop.java_tools.tools import tool
from interop.support.kafka_jars import kafka_jars
from interop.support.maven import JarsUnavailableError
from kafkapy.protocol.errors import ErrorCode
from tests.handlers.produce_client import batch, produce_request
from tests.network.raw_client import RawClient

pytestmark = [pytest.mark.jvm, pytest.mark.capability("transactions")]

HOUR_MS: Final = 3_600_000
PRODUCER_ID: Final = 2**40


@pytest.fixture
def unverified(bootstrap_servers: str) -> Iterator[None]:
    """Has the broker take transactions without asking, as brokers before 3.6 do."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    (broker,) = admin.list_topics(timeout=30).brokers

    def alter(operation: AlterConfigOpType, value: str | None) -> None:
        name = "transaction.partition.verification.enable"
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(30)

    alter(AlterConfigOpType.SET, "false")
    yield
    alter(AlterConfigOpType.DELETE, None)


def test_a_hanging_transaction_is_found_and_aborted(
    bootstrap_servers: str, make_topic: MakeTopic, unverified: None
) -> None:
    try:
        kafka_jars()
    except JarsUnavailableError as problem:
        pytest.skip(f"Apache Kafka is not available: {problem}")
    topic = make_topic()
    begun_ms = int(time.time() * 1000) - HOUR_MS
    producer = {"producer_id": PRODUCER_ID, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    request = produce_request(topic, batch(b"hangs", timestamp=begun_ms, **producer))
    request.transactional_id = topic
    with RawClient(bootstrap_servers) as client:
        (answer,) = client.ask(request, 9).responses[0].partition_responses
    assert answer.error_code == ErrorCode.NONE
    assert stable_end(bootstrap_servers, topic) == 0

    found = tool("transactions", bootstrap_servers, "find-hanging", "--topic", topic)
    (row,) = [line.split() for line in found.splitlines()[1:] if line.strip()]
    assert row[:5] == [topic, "0", str(PRODUCER_ID), "0", "-1"]
    where = ("--topic", topic, "--partition", "0", "--start-offset", "0")
    tool("transactions", bootstrap_servers, "abort", *where)
    assert stable_end(bootstrap_servers, topic) == 2
    reader = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": topic})
    reader.assign([TopicPartition(topic, 0, 0)])
    with RawClient(bootstrap_servers) as client:
        client.ask(produce_request(topic, batch(b"after")), 9)
    message = reader.poll(30)
    assert message is not None
    assert message.value() == b"after", "the record before is aborted"
    reader.close()


def stable_end(bootstrap_servers: str, topic: str) -> int:
    partition = TopicPartition(topic, 0)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    asked = admin.list_offsets(
        {partition: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=30
    )
    return int(asked[partition].result(30).offset)
