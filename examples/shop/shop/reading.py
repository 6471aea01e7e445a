"""Reads all records that a topic has now, as reports and tables need them. Written with confluent-kafka."""

from __future__ import annotations

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition


def read_all(servers: str, topic: str) -> list[Message]:
    """The records of a topic, by partition and offset; without those of open and aborted transactions."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "client.id": "reading",
            "group.id": "reading",  # librdkafka wants one; nothing is committed
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
            "log.connection.close": False,
        }
    )
    records: list[Message] = []
    try:
        partitions = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        ended: set[int] = set()
        while len(ended) < len(partitions):
            record = consumer.poll(0.05)
            if record is None:
                continue
            if record.error() is None:
                records.append(record)
            else:
                ended.add(record.partition())
    finally:
        consumer.close()
    return sorted(records, key=lambda each: (each.partition(), each.offset()))
