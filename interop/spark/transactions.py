"""Writes records of every kind, and transactions: committed, aborted and left open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

from interop.support.records import CODECS, sample_records
from interop.support.waiting import OPEN_AT_MOST_MS


def write_every_shape(bootstrap_servers: str, topic: str, partitions: int) -> None:
    """Write the sample records with each codec, and small ones: several segments of 1 MiB."""
    for codec in CODECS:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "compression.type": codec,
                "linger.ms": 50,
                "enable.idempotence": codec in ("none", "lz4"),
            }
        )
        for partition in range(partitions):
            for record in sample_records():
                producer.produce(
                    topic,
                    partition=partition,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    timestamp=record.timestamp,
                )
            for number in range(100):
                producer.produce(topic, b"small", b"%d" % number, partition=partition)
        assert producer.flush(60) == 0


@contextmanager
def transactions_left_open(bootstrap_servers: str, topic: str, partitions: int) -> Iterator[None]:
    """Write committed and aborted transactions that overlap, and then one that stays open.

    Records without a transaction are between them and after the open one.
    """
    plain = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 5})
    first, second, last = (
        Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "transactional.id": f"{topic}-{name}",
                "transaction.timeout.ms": OPEN_AT_MOST_MS,
            }
        )
        for name in ("first", "second", "last")
    )
    for producer in (first, second, last):
        producer.init_transactions(60)

    def write(producer: Producer, text: str) -> None:
        for partition in range(partitions):
            for number in range(20):
                producer.produce(topic, f"{text} {number}", f"{number}", partition=partition)
        assert producer.flush(60) == 0

    write(plain, "before")
    for number in range(6):
        first.begin_transaction()
        second.begin_transaction()
        write(first, f"first {number}")
        write(second, f"second {number}")
        write(plain, f"between {number}")
        write(first, f"first again {number}")
        first.abort_transaction(60) if number % 2 else first.commit_transaction(60)
        write(second, f"second again {number}")
        second.abort_transaction(60) if number % 3 else second.commit_transaction(60)
    last.begin_transaction()
    write(last, "open")
    write(plain, "after")
    first.begin_transaction()
    write(first, "committed after")
    first.commit_transaction(60)
    first.begin_transaction()
    write(first, "aborted after")
    first.abort_transaction(60)
    yield
    last.abort_transaction(60)
