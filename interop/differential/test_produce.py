"""Produce: what is stored, what is refused, and how."""

from __future__ import annotations

import time

import pytest

from interop.differential.batches import START, batch, odd_batches, wrong_batches
from interop.differential.brokers import Broker, Differs, Pair
from interop.differential.data import PRODUCE, fetch, produce, produce_request
from kafkapy.protocol.compression import Compression
from kafkapy.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafkapy.protocol.types import random_uuid

pytestmark = pytest.mark.jvm

REFUSED_WITH_LOG_START = Differs(
    "*", "*log_start_offset", "kafkapy tells where the log starts whenever it knows the partition"
)
EMPTY_TOPICS = Differs(
    "* no partitions", "responses*", "kafkapy answers a topic without partitions as it was asked"
)

COMPRESSION_TYPES = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")


def test_good_batches_in_every_version(pair: Pair) -> None:
    def good(broker: Broker) -> None:
        topic = broker.topic(partitions=2)
        for version in broker.versions(ProduceRequest, 3):
            for acks in (-1, 1):
                produce(
                    broker, f"v{version} acks={acks}", topic, batch(), batch(1), version=version, acks=acks
                )
            request = produce_request(broker, topic, batch(), version=version, acks=0)
            broker.main.tell(f"v{version} acks=0", request, version)
        fetch(broker, "what is stored", topic, 0, 0)

    pair.compare(good)


def test_bad_batches_are_refused(pair: Pair) -> None:
    def bad(broker: Broker) -> None:
        topic = broker.topic()
        for name, records in wrong_batches().items():
            produce(broker, name, topic, records)
            request = produce_request(broker, topic, records, acks=0)
            broker.main.tell(f"{name}, acks=0", request, PRODUCE)
        fetch(broker, "what is stored", topic, 0)

    code = "responses*error_code"
    pair.compare(
        bad,
        REFUSED_WITH_LOG_START,
        *(
            Differs(
                name, code, "INVALID_RECORD: the CRC is good or there is none, and trying again cannot help"
            )
            for name in ("garbage", "bytes after the batch", "magic 3")
        ),
        *(
            Differs(name, code, "Apache Kafka answers UNKNOWN_SERVER_ERROR; kafkapy says what is wrong")
            for name in ("unknown codec", "says gzip and is not", "says zstd and is not")
        ),
        Differs("producer id without epoch*", "*", "a client must not write it; Apache Kafka stores it"),
        Differs("what is stored", "*", "the one above"),
    )


@pytest.mark.parametrize("version", [3, 7, 8, 13])
def test_versions_of_refusals(pair: Pair, version: int) -> None:
    def refusals(broker: Broker) -> None:
        topic = broker.topic(partitions=2, cleanup_policy="compact")
        produce(broker, "null keys", topic, batch(key=None), batch(), version=version)
        produce(broker, "wrong count", topic, wrong_batches()["count too high"], batch(), version=version)

    pair.compare(refusals)


def test_odd_batches_are_stored(pair: Pair) -> None:
    def odd(broker: Broker) -> None:
        for name, records in odd_batches().items():
            topic = broker.topic()
            produce(broker, name, topic, records)
            fetch(broker, f"{name}, stored", topic, 0)

    pair.compare(odd)


def test_empty_requests(pair: Pair) -> None:
    def empty(broker: Broker) -> None:
        topic = broker.topic()
        for version in broker.versions(ProduceRequest, 3):
            produce(broker, f"v{version} no bytes", topic, b"", version=version)
            produce(broker, f"v{version} no partitions", topic, version=version)
            request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[])
            broker.ask(f"v{version} no topics", request, version)

    pair.compare(empty, REFUSED_WITH_LOG_START, EMPTY_TOPICS)


def test_null_records(pair: Pair) -> None:
    def null(broker: Broker) -> None:
        produce(broker, "null records", broker.topic(), None)

    pair.compare(null, Differs("*", "*", "Apache Kafka never answers a request without records"))


def test_unknown_places(pair: Pair) -> None:
    def unknown(broker: Broker) -> None:
        topic = broker.topic()
        for version in broker.versions(ProduceRequest, 3):
            produce(broker, f"v{version} partition", topic, batch(), batch(), version=version)
            known = {"topic_id": random_uuid()} if version >= 13 else {"name": "nobody-made-this"}
            for index in (0, -1):
                data = [PartitionProduceData(index=index, records=batch())]
                request = ProduceRequest(
                    acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(**known, partition_data=data)]
                )
                broker.ask(f"v{version} topic, partition {index}", request, version)
                request.acks = 0
                broker.main.tell(f"v{version} topic, partition {index}, acks=0", request, version)

    pair.compare(unknown)


def test_other_acks(pair: Pair) -> None:
    def acks(broker: Broker) -> None:
        topic = broker.topic()
        for version in broker.versions(ProduceRequest, 3):
            for number in (2, -2, 32767):
                produce(broker, f"v{version} {number}", topic, batch(), batch(), version=version, acks=number)

    pair.compare(acks)


def test_wrong_names(pair: Pair) -> None:
    def names(broker: Broker) -> None:
        for name in ("", ".", "a/b", "x" * 250, "__consumer_offsets", "__transaction_state"):
            data = [PartitionProduceData(index=0, records=batch())]
            request = ProduceRequest(
                acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=name, partition_data=data)]
            )
            broker.ask(f"{name[:20]!r}", request, PRODUCE)

    pair.compare(names)


def test_the_same_partition_twice(pair: Pair) -> None:
    def twice(broker: Broker) -> None:
        topic = broker.topic()
        data = [PartitionProduceData(index=0, records=batch(count)) for count in (1, 2)]
        request = ProduceRequest(
            acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
        )
        broker.ask("one topic", request, PRODUCE)
        fetch(broker, "what is stored", topic, 0)

    pair.compare(
        twice, Differs("*", "*", "kafkapy stores both; Apache Kafka only the last, and says nothing")
    )


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name)
def test_codecs_and_compression_types(pair: Pair, codec: Compression) -> None:
    def codecs(broker: Broker) -> None:
        for wanted in COMPRESSION_TYPES:
            topic = broker.topic(wanted, compression_type=wanted)
            for version in broker.versions(ProduceRequest, 3):
                records = batch(20, size=100, compression=codec)
                produce(broker, f"{wanted} v{version}", topic, records, version=version)
            fetch(broker, f"{wanted}, stored", topic, 0)
            fetch(broker, f"{wanted}, stored, v4", topic, 0, version=9)

    early = "a client before v10 may not know zstd: UNSUPPORTED_COMPRESSION_TYPE, as Apache Kafka 3.9 answers"
    pair.compare(
        codecs,
        *([REFUSED_WITH_LOG_START] if codec is Compression.ZSTD else []),
        Differs("zstd, stored, v4", "*", early),
    )


def test_timestamps(pair: Pair) -> None:
    def timestamps(broker: Broker) -> None:
        now = int(time.time() * 1000)
        topic = broker.topic()
        strict = broker.topic(
            message_timestamp_before_max_ms="3600000", message_timestamp_after_max_ms="60000"
        )
        for name, place in (("lenient", topic), ("strict", strict)):
            produce(broker, f"{name}: now", place, batch(timestamp=now))
            produce(broker, f"{name}: old", place, batch(timestamp=START))
            produce(broker, f"{name}: tomorrow", place, batch(timestamp=now + 86_400_000))
            produce(broker, f"{name}: -1", place, batch(1, timestamp=-1))
            produce(broker, f"{name}: -2", place, batch(1, timestamp=-2))
            produce(broker, f"{name}: -5 and on", place, batch(timestamp=-5))
            produce(broker, f"{name}: -1 and on", place, batch(timestamp=-1))
            fetch(broker, f"{name}: stored", place, 0)

    pair.compare(timestamps)


def test_log_append_time(pair: Pair) -> None:
    def append_time(broker: Broker) -> None:
        for wanted in COMPRESSION_TYPES:
            topic = broker.topic(message_timestamp_type="LogAppendTime", compression_type=wanted)
            for codec in Compression:
                produce(broker, f"{codec.name} to {wanted}", topic, batch(20, size=100, compression=codec))
            fetch(broker, f"{wanted}, stored", topic, 0)
        topic = broker.topic(message_timestamp_type="LogAppendTime")
        produce(broker, "without timestamps", topic, odd_batches()["no timestamps"])
        produce(broker, "negative", topic, batch(1, timestamp=-5))
        produce(broker, "says log append time", topic, wrong_batches()["log append time"])
        fetch(broker, "stored", topic, 0)

    pair.compare(
        append_time,
        Differs("says log append time", "*record_errors*", "one reason for the batch says it all"),
    )


def test_sizes(pair: Pair) -> None:
    def sizes(broker: Broker) -> None:
        small = broker.topic("small", max_message_bytes="1000")
        produce(broker, "below max.message.bytes", small, batch(1, size=800))
        produce(broker, "above max.message.bytes", small, batch(1, size=1000))
        produce(broker, "only compressed below", small, batch(1, size=100_000, compression=Compression.GZIP))
        recompressed = broker.topic("recompressed", max_message_bytes="1000", compression_type="uncompressed")
        produce(
            broker,
            "below until decompressed",
            recompressed,
            batch(1, size=5000, compression=Compression.GZIP),
        )
        segments = broker.topic("segments", segment_bytes=str(1 << 20), max_message_bytes=str(4 << 20))
        produce(broker, "larger than a segment", segments, batch(1, size=2 << 20))
        default = broker.topic("default")
        produce(broker, "1 MiB", default, batch(1, size=1 << 20))
        produce(broker, "just below 1 MiB", default, batch(1, size=(1 << 20) - 100))
        fetch(broker, "stored", default, 0)

    pair.compare(sizes, REFUSED_WITH_LOG_START)


def test_transactional_requests(pair: Pair) -> None:
    def transactional(broker: Broker) -> None:
        topic = broker.topic()
        produce(broker, "no transactional records", topic, batch(), transactional_id="t")
        records = wrong_batches()["transactional"]
        produce(broker, "transactional records", topic, records, transactional_id="t")

    pair.compare(transactional, REFUSED_WITH_LOG_START)
