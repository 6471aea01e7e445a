"""Topics with everything that a log can hold, written by a stock client into any broker."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
START_MS = 1_700_000_000_000
_SECONDS = 30

# Apache Kafka 4 takes no small segment.bytes: segments end by the times of their records.
TOPICS = {
    "codecs": {"retention.ms": "-1", "segment.ms": "60000", "index.interval.bytes": "1024"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "tables": {
        "cleanup.policy": "compact",
        "segment.ms": "500",
        "index.interval.bytes": "512",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "600000",
    },
    "transactions": {"segment.ms": "200"},
}


def create_topics(bootstrap_servers: str) -> None:
    """One partition each."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    made = admin.create_topics([NewTopic(name, 1, 1, config=config) for name, config in TOPICS.items()])
    for future in made.values():
        future.result(_SECONDS)


def fill(bootstrap_servers: str, *, transactions: bool = True) -> None:
    """Records of every kind, and committed offsets of a group."""
    for codec in CODECS:
        _fill_codec(bootstrap_servers, codec)
    _fill_tables(bootstrap_servers)
    if transactions:
        _fill_transactions(bootstrap_servers)
    _commit_offsets(bootstrap_servers)


def _fill_codec(bootstrap_servers: str, codec: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "compression.type": codec,
            "linger.ms": 5,
            "batch.num.messages": 20,
            "enable.idempotence": codec in ("gzip", "none"),
        }
    )
    for number in range(400):
        producer.produce(
            "codecs",
            key=None if number % 3 == 0 else f"key {number}",
            value=None if number % 7 == 0 else f"{codec} ünïcode {number} " * (number % 9),
            headers=[("trace", f"{number}".encode()), ("empty", None)] if number % 5 == 0 else None,
            timestamp=START_MS + 1000 * number - (number % 4) * 500,
        )
        producer.produce("append-time", value=f"{codec} {number}")
    assert producer.flush(_SECONDS) == 0


def _fill_tables(bootstrap_servers: str) -> None:
    """Keys again and again, and some deleted."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 5, "batch.num.messages": 50})
    for number in range(3000):
        value = None if number % 11 == 0 else b"v" * 40
        producer.produce("tables", key=f"row {number % 70}", value=value, timestamp=START_MS + number)
    assert producer.flush(_SECONDS) == 0


def _fill_transactions(bootstrap_servers: str) -> None:
    """Committed and aborted ones side by side, over several segments; the last one stays open."""
    producers = []
    for name in ("orders", "payments"):
        producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "transactional.id": name, "linger.ms": 1}
        )
        producer.init_transactions(_SECONDS)
        producers.append(producer)
    for turn in range(20):
        for producer in producers:
            producer.begin_transaction()
        for number in range(30):
            for producer in producers:
                producer.produce("transactions", key=f"{turn}", value=f"turn {turn} record {number}" * 2)
        for index, producer in enumerate(producers):
            assert producer.flush(_SECONDS) == 0
            if (turn + index) % 3 == 0:
                producer.abort_transaction(_SECONDS)
            else:
                producer.commit_transaction(_SECONDS)


def _commit_offsets(bootstrap_servers: str) -> None:
    """A member that reads and commits, and one group whose offsets were committed from outside."""
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer({**settings, "group.id": "readers"})
    consumer.subscribe(["codecs", "append-time"])
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            consumer.commit(asynchronous=False)
            break
    consumer.close()
    outside = Consumer({**settings, "group.id": "outside"})
    outside.commit(offsets=[TopicPartition("codecs", 0, 17, metadata="by hand")], asynchronous=False)
    outside.close()
