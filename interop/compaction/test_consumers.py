"""Stock consumers of a topic most of whose segments compaction has left without a record."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from interop.confluent_kafka import client as confluent
from interop.java_tools import tools as java
from interop.kafka_python import client as kafka_python
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import kafka_jars
from interop.support.records import Record
from interop.support.waiting import wait_until
from tests.servers.kafkapy_process import KafkapyProcess

TOPIC = "keys"
SEGMENTS = 16
KEYS = 3
VALUE = b"x" * 340_000
"""Of which a segment of 1 MiB holds three."""
COUNT = SEGMENTS * KEYS
EMPTY_BATCH_BYTES = 61


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker that has the topic.

    14 of its segments have no record, and two have each key.
    """
    settings = {"log.cleaner.backoff.ms": "100", "log.segment.delete.delay.ms": "100"}
    with KafkapyProcess(tmp_path_factory.mktemp("server"), properties=settings) as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        config = {"segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01", "retention.ms": "-1"}
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=config)])[TOPIC].result(30)
        records = [Record(b"key-%d" % (number % KEYS), VALUE) for number in range(COUNT)]
        for record in records:
            confluent.produce(server.bootstrap_servers, TOPIC, [record])
        change = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
        topic = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[change])
        admin.incremental_alter_configs([topic])[topic].result(30)
        partition = server.data / f"{TOPIC}-0"
        wait_until(lambda: empty_segments(partition) == SEGMENTS - 2)
        yield server.bootstrap_servers


def empty_segments(partition: Path) -> int:
    """How many segments hold no record; the cleaner renames files while they are counted."""
    count = 0
    for path in partition.glob("*.log"):
        with suppress(FileNotFoundError):
            count += path.stat().st_size == EMPTY_BATCH_BYTES
    return count


def left() -> list[int]:
    """The offsets of the last closed segment and of the active one, which hold each key once."""
    return list(range(COUNT - 2 * KEYS, COUNT))


def test_librdkafka_reads_without_an_error(compacted: str) -> None:
    """librdkafka reports an error when it asks for more than 1 GiB.

    Each answer without a record has it ask for twice as many bytes.
    """
    received = confluent.consume(compacted, TOPIC, 2 * KEYS)
    assert [each.offset for each in received] == left()


def test_kafka_python_reads_every_record(compacted: str) -> None:
    received = kafka_python.consume(compacted, TOPIC, 2 * KEYS)
    assert [each.offset for each in received] == left()


@pytest.mark.jvm
def test_the_console_consumer_reads_every_record(compacted: str) -> None:
    with skipped_without_jars():
        kafka_jars()
    received = java.consume(compacted, TOPIC, 2 * KEYS)
    assert [each.offset for each in received] == left()
