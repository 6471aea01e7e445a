"""Topics with messages of before Kafka 0.11 have the same records here.

Apache Kafka 3.9.1 wrote them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.migrate.migration import run_kafkapy
from interop.support.records import text_records
from interop.support.waiting import wait_until
from interop.support.zookeeper_process import ZooKeeperKafkaProcess
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.tools.migrate.old_segments import begins_with_message
from tests.servers.kafkapy_process import KafkapyProcess

pytestmark = pytest.mark.jvm

FORMATS = {"v0": "0.9.0", "v1": "0.10.2"}
CODECS = ("none", "gzip", "snappy", "lz4")
COUNT = 2_000


def test_messages_of_old_formats_are_taken_over(tmp_path: Path, zookeeper: str) -> None:
    # A broker of these days writes them if it is told that others of the cluster are old.
    settings = {"inter.broker.protocol.version": "2.8", "log.segment.bytes": "65536"}
    with ZooKeeperKafkaProcess(tmp_path / "there", zookeeper, properties=settings) as kafka:
        topics = _write(kafka.bootstrap_servers)
        before = {topic: _read(kafka.bootstrap_servers, topic) for topic in topics}
    data = tmp_path / "there" / "data"
    for topic in topics:
        (first,) = data.glob(f"{topic}-0/{0:020d}.log")
        assert begins_with_message(ReadOnlyFiles(), str(first))
    told = run_kafkapy("import", data, tmp_path / "here" / "data")
    assert told.count("messages in format v0 or v1 become record batches") == len(topics)
    with KafkapyProcess(tmp_path / "here") as kafkapy:
        for topic in topics:
            assert _read(kafkapy.bootstrap_servers, topic) == before[topic], topic
    assert run_kafkapy("check", "--deep", tmp_path / "here" / "data").endswith("nothing is wrong\n")


def _write(bootstrap_servers: str) -> list[str]:
    """A topic for each format, codec and timestamp type."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    topics = {
        f"{name}-{codec}-{kind}": codec
        for name in FORMATS
        for codec in CODECS
        for kind in ("CreateTime", "LogAppendTime")[: 1 if name == "v0" else 2]
    }
    wanted = [
        NewTopic(
            topic,
            1,
            1,
            config={
                "message.format.version": FORMATS[topic[:2]],
                "message.timestamp.type": topic.rpartition("-")[2],
                "retention.ms": "-1",
            },
        )
        for topic in topics
    ]
    for made in admin.create_topics(wanted).values():
        made.result(30)
    wait_until(lambda: topics.keys() <= admin.list_topics(timeout=30).topics.keys())
    for topic, codec in topics.items():
        producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "compression.type": codec,
                "linger.ms": 20,
                "batch.num.messages": 150,
            }
        )
        refused: list[object] = []
        for record in text_records(COUNT):
            producer.produce(
                topic,
                record.value,
                record.key,
                timestamp=record.timestamp,
                on_delivery=lambda error, _, refused=refused: refused.append(error) if error else None,
            )
        assert producer.flush(60) == 0
        assert not refused
    return list(topics)


def _read(bootstrap_servers: str, topic: str) -> list[tuple[Any, ...]]:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "reader", "check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    read = consumer.consume(COUNT, 30)
    consumer.close()
    assert len(read) == COUNT
    return [(each.offset(), _timestamp(each), each.key(), each.value()) for each in read]


def _timestamp(message: Message) -> tuple[int, int] | None:
    """Type and time of a message.

    They are None for a message of v0, which has neither, and for a record of -1, which it becomes.
    """
    kind, time = message.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE or time == -1 else (kind, time)
