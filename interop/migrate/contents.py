"""The contents of the migrated directories: all kinds of records, groups and transactions."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.spark.transactions import write_every_shape
from interop.support.records import text_records
from interop.support.waiting import OPEN_AT_MOST_MS, wait_until
from kafkapy.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from tests.network.raw_client import RawClient

SEGMENT = str(1 << 20)
_LONG = "-1"
_IN_FLIGHT = 500

TOPICS = {
    "every-shape": (1, {"segment.bytes": SEGMENT}),
    "append-time": (1, {"message.timestamp.type": "LogAppendTime"}),
    "keyed": (3, {"segment.bytes": SEGMENT}),
    "compacted": (
        1,
        {"cleanup.policy": "compact", "segment.bytes": SEGMENT, "min.cleanable.dirty.ratio": "0.01"},
    ),
    "cut": (1, {}),
    "tail": (3, {}),
    "empty": (2, {"compression.type": "zstd"}),
}
QUOTAS = (
    ([("user", "no body/ü")], "consumer_byte_rate", 1e12),
    ([("user", "nobody"), ("client-id", None)], "request_percentage", 99.5),
    ([("ip", "192.0.2.1")], "connection_creation_rate", 7.0),
)
TRANSACTIONS = "transactions"
GROUPS = ("assigned", "subscribed", "modern", "transactional")


def fill(bootstrap_servers: str, *, transactions: bool, modern_groups: bool = False, seed: int = 1) -> None:
    """Create the topics and write to all except `tail`.

    One of the `transactions` is left open.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    topics = dict(TOPICS)
    if transactions:
        topics[TRANSACTIONS] = (2, {})
    wanted = [
        NewTopic(name, partitions, 1, config={"retention.ms": _LONG, **configs})
        for name, (partitions, configs) in topics.items()
    ]
    for made in admin.create_topics(wanted).values():
        made.result(30)
    wait_until(lambda: topics.keys() <= admin.list_topics(timeout=30).topics.keys())
    write_every_shape(bootstrap_servers, "every-shape", 1)
    _write_text(bootstrap_servers, "append-time", "lz4", 200)
    _write_text(bootstrap_servers, "keyed", "none", 3000 + random.Random(seed).randrange(2000))
    _write_text(bootstrap_servers, "cut", "snappy", 100)
    _write_compacted(bootstrap_servers)
    admin.delete_records([TopicPartition("cut", 0, 40)])[TopicPartition("cut", 0)].result(30)
    _commit_offsets(bootstrap_servers, modern_groups=modern_groups)
    _give_quotas(bootstrap_servers)
    if transactions:
        write_transactions(bootstrap_servers, TRANSACTIONS)


def _write_text(bootstrap_servers: str, topic: str, codec: str, count: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "compression.type": codec,
            "batch.num.messages": 97,
        }
    )
    for record in text_records(count):
        producer.produce(
            topic, record.value, record.key, timestamp=record.timestamp, headers=list(record.headers)
        )
        producer.poll(0)
    assert producer.flush(60) == 0


def _write_compacted(bootstrap_servers: str) -> None:
    """Write a few keys in several segments, and delete some of them at the end."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 20})
    rng = random.Random(7)
    for number in range(3000):
        producer.produce("compacted", rng.randbytes(1000), b"%d" % (number % 50))
    for number in range(5):
        producer.produce("compacted", None, b"%d" % number)
    assert producer.flush(60) == 0


def _commit_offsets(bootstrap_servers: str, *, modern_groups: bool) -> None:
    base = {
        "bootstrap.servers": bootstrap_servers,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer({**base, "group.id": "assigned"})
    offsets = [TopicPartition("keyed", n, 10 + n, metadata=f"заметка {n}") for n in range(3)]
    offsets.append(TopicPartition("cut", 0, 77))
    # The first commit creates the offsets topic; its partitions are ready a moment later.
    wait_until(lambda: consumer.commit(offsets=offsets, asynchronous=False), ignoring=KafkaException)
    consumer.close()
    protocols = {"subscribed": "classic", **({"modern": "consumer"} if modern_groups else {})}
    for group, protocol in protocols.items():
        consumer = Consumer({**base, "group.id": group, "group.protocol": protocol})
        consumer.subscribe(["keyed", "append-time"])
        wait_until(lambda consumer=consumer: consumer.poll(1.0) is not None)  # type: ignore[misc]
        consumer.commit(asynchronous=False)
        consumer.close()


def _give_quotas(bootstrap_servers: str) -> None:
    """Set quotas of users and clients that do not exist."""
    entries = [
        AlterClientQuotasRequestEntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            ops=[OpData(key=key, value=value)],
        )
        for entity, key, value in QUOTAS
    ]
    with RawClient(bootstrap_servers) as client:
        answer = client.ask(AlterClientQuotasRequest(entries=entries), 1)
    assert {each.error_code for each in answer.entries} == {0}, answer


def write_transactions(bootstrap_servers: str, topic: str) -> None:
    """Write committed and aborted transactions that overlap, and leave one open.

    The topic has two partitions. The transactions also commit offsets.
    """
    plain = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 5})
    producers = [
        Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "transactional.id": f"id-{name}",
                "transaction.timeout.ms": OPEN_AT_MOST_MS,
                "linger.ms": 5,
            }
        )
        for name in ("one", "two", "open")
    ]
    for producer in producers:
        producer.init_transactions(60)

    def write(producer: Producer, text: str) -> None:
        for partition in range(2):
            for number in range(20):
                producer.produce(topic, f"{text} {number}", partition=partition)
        assert producer.flush(60) == 0

    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "transactional"})
    one, two, left_open = producers
    for number in range(4):
        one.begin_transaction()
        two.begin_transaction()
        write(one, f"one {number}")
        write(two, f"two {number}")
        write(plain, f"plain {number}")
        offsets = [TopicPartition("keyed", 0, 100 + number)]
        one.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 60)
        one.abort_transaction(60) if number % 2 else one.commit_transaction(60)
        two.abort_transaction(60) if number < 3 else two.commit_transaction(60)
    left_open.begin_transaction()
    write(left_open, "open")
    write(plain, "after")
    one.begin_transaction()
    write(one, "committed after")
    one.commit_transaction(60)
    consumer.close()


@dataclass
class Acknowledged:
    """Records of `tail` by partition and offset, as far as the broker acknowledged them."""

    records: dict[tuple[int, int], bytes] = field(default_factory=dict)


@contextlib.contextmanager
def writing(bootstrap_servers: str, seed: int) -> Iterator[Acknowledged]:
    """Writes to `tail` all the while, with a codec of its own for each producer."""
    acknowledged = Acknowledged()
    stop = threading.Event()

    def told(error: object, message: Message) -> None:
        if error is None:
            acknowledged.records[message.partition(), message.offset()] = message.value()

    def write(number: int) -> None:
        rng = random.Random(seed * 10 + number)
        codec = rng.choice(("none", "gzip", "snappy", "lz4", "zstd"))
        producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "compression.type": codec,
                "linger.ms": rng.choice((0, 2, 10)),
                "message.timeout.ms": 3000,
                "log_level": 0,
            }
        )
        sent = 0
        while not stop.is_set():
            producer.produce(
                "tail", b"%d-%d %b" % (number, sent, rng.randbytes(rng.randrange(300))), on_delivery=told
            )
            sent += 1
            while producer.poll(0.0005) == 0 and len(producer) > _IN_FLIGHT and not stop.is_set():
                pass
        producer.purge()
        producer.flush(1)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield acknowledged
    finally:
        stop.set()
        for thread in threads:
            thread.join()
