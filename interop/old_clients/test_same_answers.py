"""The same old requests get the same answers, field by field.

They go to Apache Kafka 3.9.1 and to kafkapy.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from interop.differential.batches import batch
from interop.differential.brokers import Broker, Differs, Pair
from interop.differential.data import fetch, produce
from interop.old_clients.conftest import LAST_FOR_OLD_CLIENTS
from interop.old_clients.message_sets import CODECS, good_sets, messages, wrong_sets
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import kafka_jars
from interop.support.kafka_process import KafkaProcess
from kafkapy.protocol.compression import Compression
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.servers.kafkapy_process import KafkapyProcess

pytestmark = pytest.mark.jvm

OLD_PRODUCE = range(3)
OLD_FETCH = range(4)

NULL_RECORDS = Differs(
    "*",
    "*records",
    "an error comes with no records; in Apache Kafka before 4 they are null",
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    kafka = KafkaProcess(tmp_path_factory.mktemp("kafka"), release=LAST_FOR_OLD_CLIENTS, heap="512m")
    kafkapy = KafkapyProcess(tmp_path_factory.mktemp("kafkapy"), properties={"durability": "os"})
    with skipped_without_jars():
        kafka_jars(LAST_FOR_OLD_CLIENTS)
    with kafka, kafkapy:
        yield Pair(kafka.bootstrap_servers, kafkapy.bootstrap_servers)
        assert kafkapy.running, f"kafkapy ended during the tests:\n{kafkapy.output()}"


@pytest.mark.parametrize("version", OLD_PRODUCE)
def test_good_message_sets_are_stored_alike(pair: Pair, version: int) -> None:
    def good(broker: Broker) -> None:
        for name, records in good_sets().items():
            topic = broker.topic()
            for count in (1, 2):
                produce(broker, f"{name} {count}", topic, records, version=version, acks=-1)
            fetch(broker, f"{name}, stored", topic, 0)
            for old in OLD_FETCH:
                fetch(broker, f"{name}, v{old}", topic, 0, version=old)

    pair.compare(good)


def test_wrong_message_sets_are_refused_alike(pair: Pair) -> None:
    def wrong(broker: Broker) -> None:
        topic = broker.topic()
        for name, records in wrong_sets().items():
            for version in OLD_PRODUCE:
                produce(broker, f"{name} v{version}", topic, records, version=version)
        fetch(broker, "stored", topic, 0)

    pair.compare(
        wrong,
        *(
            Differs(f"{name} v*", "responses*error_code", "Apache Kafka answers UNKNOWN_SERVER_ERROR")
            for name in (
                "unknown codec",
                "says gzip and is not",
                "negative timestamp",
                "key beyond its message",
            )
        ),
        Differs("bytes after the value v*", "*", "Apache Kafka stores the message without them"),
        Differs("stored", "*", "the two above"),
    )


def test_topics_that_choose_codec_and_time(pair: Pair) -> None:
    def choosing(broker: Broker) -> None:
        for wanted in ("uncompressed", "gzip", "snappy", "lz4", "zstd"):
            topic = broker.topic(wanted, compression_type=wanted)
            for codec in CODECS:
                produce(broker, f"{wanted} {codec.name}", topic, messages(20, compression=codec), version=2)
            for version in (*OLD_FETCH, 4, 9, 10):
                fetch(broker, f"{wanted} v{version}", topic, 0, version=version)
        topic = broker.topic("append-time", message_timestamp_type="LogAppendTime")
        for codec in CODECS:
            for magic in (0, 1):
                records = messages(magic=magic, compression=codec)
                produce(broker, f"append time {codec.name} {magic}", topic, records, version=2)
        for version in (*OLD_FETCH, 4):
            fetch(broker, f"append time v{version}", topic, 0, version=version)
        topic = broker.topic("compacted", cleanup_policy="compact")
        produce(broker, "null key", topic, messages(key=None), version=2)
        topic = broker.topic("small", max_message_bytes="1000")
        produce(broker, "large", topic, messages(1, size=1000), version=2)
        produce(broker, "large together", topic, messages(5, size=300), version=2)
        produce(
            broker, "large but compressed", topic, messages(5, size=300, compression=CODECS[1]), version=2
        )
        topic = broker.topic("strict", message_timestamp_before_max_ms="3600000")
        produce(broker, "old", topic, messages(), version=2)
        produce(broker, "without time", topic, messages(magic=0), version=2)

    pair.compare(choosing, NULL_RECORDS)


def test_new_batches_in_old_fetches(pair: Pair) -> None:
    def down(broker: Broker) -> None:
        for codec in CODECS:
            topic = broker.topic(codec.name.lower())
            for count in (3, 1, 5):
                produce(broker, f"{codec.name} {count}", topic, batch(count, compression=codec))
            for version in OLD_FETCH:
                for offset in range(11):
                    fetch(broker, f"{codec.name} v{version} offset {offset}", topic, offset, version=version)

    pair.compare(down)


def test_limits_of_old_fetches(pair: Pair) -> None:
    def limits(broker: Broker) -> None:
        for codec in (Compression.NONE, Compression.GZIP):
            topic = broker.topic(codec.name.lower(), partitions=2)
            for count in (3, 1, 5):
                records = batch(count, size=100, compression=codec)
                produce(broker, f"{codec.name}: {count}", topic, records, records)
            for version in OLD_FETCH:
                for size in (0, 1, 17, 60, 150, 300, 450, 600, 1000, 2000):
                    fetch(
                        broker,
                        f"{codec.name} v{version} partition {size}",
                        topic,
                        0,
                        4,
                        version=version,
                        partition_max_bytes=size,
                    )
                    if version == 3:
                        fetch(broker, f"{codec.name} {size}", topic, 0, 4, version=version, max_bytes=size)

    starved = "Apache Kafka answers nothing when the first batch is above the limit: the client asks for ever"
    pair.compare(
        limits, *(Differs(f"* v{version} partition *", "*records", starved) for version in (0, 1, 2))
    )


def test_zstd_in_old_fetches(pair: Pair) -> None:
    def zstd(broker: Broker) -> None:
        topic = broker.topic()
        for number, codec in enumerate((Compression.NONE, Compression.ZSTD, Compression.NONE)):
            produce(broker, f"{number}", topic, batch(compression=codec))
        for version in (*OLD_FETCH, 4, 9, 10):
            for offset in (0, 3, 4, 6, 9, 10):
                fetch(broker, f"v{version} offset {offset}", topic, offset, version=version)

    pair.compare(zstd, NULL_RECORDS)


def test_old_list_offsets(pair: Pair) -> None:
    def offsets(broker: Broker) -> None:
        topic = broker.topic(segment_bytes=str(1 << 20))
        now = int(time.time() * 1000)

        def ask(label: str, timestamp: int, count: int, replica_id: int = -1, partition: int = 0) -> None:
            wanted = ListOffsetsPartition(
                partition_index=partition, timestamp=timestamp, max_num_offsets=count
            )
            request = ListOffsetsRequest(
                replica_id=replica_id, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]
            )
            broker.ask(label, request, 0)

        for filled in ("empty", "filled"):
            for timestamp in (-1, -2, 0, now - 3_600_000, now + 3_600_000):
                for count in (0, 1, 2, 100):
                    for replica in (-1, -2):
                        label = (
                            f"{filled} {timestamp if timestamp < 1 else timestamp - now} {count} {replica}"
                        )
                        ask(label, timestamp, count, replica)
            ask(f"{filled} -3", -3, 1)
            ask(f"{filled} negative count", -1, -1)
            ask(f"{filled} unknown partition", -1, 1, partition=9)
            if filled == "empty":
                for number in range(5):
                    produce(broker, f"{number}", topic, batch(2, size=300_000))

    pair.compare(
        offsets, Differs("* negative count", "*error_code", "Apache Kafka answers UNKNOWN_SERVER_ERROR")
    )
