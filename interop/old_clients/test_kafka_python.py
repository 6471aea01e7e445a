"""kafka-python as it talks to each version of the broker that it knows."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS
from kafka.structs import OffsetAndMetadata

from interop.conftest import MakeTopic
from interop.kafka_python.client import consume, poll, produce
from interop.old_clients.writers_and_readers import comparable, kafka_python_of
from interop.support.records import Received, Record, text_records

pytestmark = pytest.mark.slow

VERSIONS = sorted(BROKER_API_VERSIONS)
NEWEST = VERSIONS[-1]
FIRST_WITH = {"none": (0, 8, 0), "gzip": (0, 8, 0), "snappy": (0, 8, 0), "lz4": (0, 8, 2), "zstd": (2, 1)}
FIRST_WITH_COORDINATOR = (0, 8, 2)
FIRST_WITH_OFFSETS, FIRST_WITH_GROUPS, FIRST_WITH_TIMES = (0, 8, 1), (0, 9), (0, 10, 1)

every_version = pytest.mark.parametrize("version", VERSIONS, ids=lambda each: ".".join(map(str, each)))


def told(version: tuple[int, ...], record: Record, reader: tuple[int, ...]) -> Record:
    """What a reader gets of a record that was written with `version`."""
    magic = min(kafka_python_of(version).magic, kafka_python_of(reader).magic)
    return comparable(Received(0, 0, record), magic).record


@pytest.mark.capability("codecs")
@every_version
def test_records_come_back_to_the_same_version_and_to_the_newest(
    bootstrap_servers: str, make_topic: MakeTopic, version: tuple[int, ...]
) -> None:
    topic = make_topic()
    sent: list[Any] = []
    for codec, first in FIRST_WITH.items():
        if version >= first:
            records = text_records(60 + len(sent))
            if kafka_python_of(version).magic < 2:
                records = [record._replace(headers=()) for record in records]
            compression = None if codec == "none" else codec
            offsets = [
                answer.offset
                for answer in produce(
                    bootstrap_servers,
                    topic,
                    records,
                    api_version=version,
                    compression_type=compression,
                    linger_ms=20,
                    enable_idempotence=False,
                )
            ]
            assert offsets == list(range(len(sent), len(sent) + len(records)))
            sent += records
    for reader in (version, NEWEST):
        received = consume(bootstrap_servers, topic, len(sent), api_version=reader)
        assert [got.offset for got in received] == list(range(len(sent)))
        magic = kafka_python_of(reader).magic
        assert [comparable(got, magic).record for got in received] == [
            told(version, record, reader) for record in sent
        ]


@pytest.mark.capability("records")
@every_version
def test_what_the_newest_has_written_is_read(
    bootstrap_servers: str, make_topic: MakeTopic, version: tuple[int, ...]
) -> None:
    topic, sent = make_topic(), text_records(150)
    for codec, records in (("gzip", sent[:50]), (None, sent[50:100]), ("lz4", sent[100:])):
        produce(bootstrap_servers, topic, records, compression_type=codec, linger_ms=20)
    received = consume(bootstrap_servers, topic, len(sent), api_version=version)
    magic = kafka_python_of(version).magic
    assert [comparable(got, magic) for got in received] == [
        comparable(Received(0, offset, record), magic) for offset, record in enumerate(sent)
    ]


@pytest.mark.capability("positions")
@every_version
def test_beginning_and_end_and_a_place_within_a_batch_are_found(
    bootstrap_servers: str, make_topic: MakeTopic, version: tuple[int, ...]
) -> None:
    topic, sent = make_topic(), text_records(100)
    for records, codec in ((sent[:50], None), (sent[50:], "gzip")):
        produce(bootstrap_servers, topic, records, compression_type=codec, linger_ms=20)
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers, api_version=version)
    consumer.assign([partition])
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 100}
    if version >= FIRST_WITH_TIMES:
        assert consumer.offsets_for_times({partition: sent[42].timestamp})[partition].offset == 42
    for offset in (23, 73):
        consumer.seek(partition, offset)
        assert [got.offset for got in poll(consumer, 100 - offset)] == list(range(offset, 100))
    consumer.close()


@pytest.mark.capability("groups")
@pytest.mark.parametrize(
    "version",
    [each for each in VERSIONS if each >= FIRST_WITH_OFFSETS],
    ids=lambda each: ".".join(map(str, each)),
)
def test_a_group_goes_on_where_it_has_committed(
    request: pytest.FixtureRequest,
    bootstrap_servers: str,
    make_topic: MakeTopic,
    name: str,
    version: tuple[int, ...],
) -> None:
    if version < FIRST_WITH_COORDINATOR:
        request.getfixturevalue("offsets_of_v0")
    topic = make_topic()
    produce(bootstrap_servers, topic, text_records(100))
    partition = TopicPartition(topic, 0)

    def join() -> KafkaConsumer:
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap_servers,
            group_id=name,
            api_version=version,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=30,
        )
        if version >= FIRST_WITH_GROUPS:
            consumer.subscribe([topic])
        else:
            consumer.assign([partition])
        return consumer

    first = join()
    assert [got.offset for got in poll(first, 30)] == list(range(30))
    first.commit({partition: OffsetAndMetadata(40, "noted", -1)})
    assert first.committed(partition) == 40
    first.close()
    second = join()
    assert [got.offset for got in poll(second, 60)] == list(range(40, 100))
    second.close()


@pytest.mark.capability("records")
@pytest.mark.parametrize("version", [(0, 9), (0, 10, 0), (0, 10, 1), NEWEST])
def test_log_append_time_is_told_from_0_10_on(
    bootstrap_servers: str, make_topic: MakeTopic, version: tuple[int, ...]
) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    for codec in (None, "gzip"):
        answers = produce(
            bootstrap_servers,
            topic,
            [record._replace(headers=()) for record in text_records(10)],
            api_version=version,
            compression_type=codec,
        )
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap_servers, api_version=version, auto_offset_reset="earliest"
        )
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), answers[0].offset)
        received = [each for batch in consumer.poll(10_000).values() for each in batch]
        consumer.close()
        assert received
        if version >= (0, 10):
            stamped = {answer.offset: answer.timestamp for answer in answers}
            assert all(
                (each.timestamp, each.timestamp_type) == (stamped[each.offset], 1) for each in received
            )
        else:
            assert {each.timestamp for each in received} == {None}
