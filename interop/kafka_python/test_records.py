"""kafka-python: what is produced is what is consumed."""

from __future__ import annotations

import time

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from interop.conftest import MakeTopic
from interop.kafka_python.client import consume, poll, produce
from interop.support.records import (
    CODECS,
    Record,
    check_one_partition,
    check_partitions,
    sample_records,
    text_records,
)


@pytest.mark.capability("records")
def test_every_shape_of_record_comes_back_unchanged(bootstrap_servers: str, make_topic: MakeTopic) -> None:
    topic, sent = make_topic(), sample_records(rare_nulls=False)
    told = produce(bootstrap_servers, topic, sent)
    assert [(each.partition, each.offset, each.timestamp) for each in told] == [
        (0, offset, record.timestamp) for offset, record in enumerate(sent)
    ]
    check_one_partition(sent, consume(bootstrap_servers, topic, len(sent)))


@pytest.mark.capability("codecs")
@pytest.mark.parametrize("codec", CODECS[1:])
def test_compressed_records_come_back_unchanged(
    bootstrap_servers: str, make_topic: MakeTopic, codec: str
) -> None:
    topic, sent = make_topic(), sample_records(rare_nulls=False)
    produce(bootstrap_servers, topic, sent, compression_type=codec, linger_ms=50)
    check_one_partition(sent, consume(bootstrap_servers, topic, len(sent)))


@pytest.mark.capability("acks")
@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_records_arrive_with_every_kind_of_acknowledgement(
    bootstrap_servers: str, make_topic: MakeTopic, acks: int | str
) -> None:
    topic, sent = make_topic(), text_records(200)
    told = produce(bootstrap_servers, topic, sent, acks=acks, enable_idempotence=False)
    if acks != 0:
        assert [each.offset for each in told] == list(range(200))
    check_one_partition(sent, consume(bootstrap_servers, topic, len(sent)))


@pytest.mark.capability("idempotence")
def test_an_idempotent_producer_writes_each_record_once_in_order(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic, sent = make_topic(), text_records(3_000)
    produce(bootstrap_servers, topic, sent, enable_idempotence=True, batch_size=2_000)
    check_one_partition(sent, consume(bootstrap_servers, topic, len(sent)))


@pytest.mark.capability("partitions")
def test_records_with_keys_keep_their_order_over_six_partitions(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic, sent = make_topic(6), text_records(10_000)
    produce(bootstrap_servers, topic, sent, compression_type="lz4", linger_ms=5)
    received = consume(bootstrap_servers, topic, len(sent), partitions=6)
    check_partitions(sent, received)
    assert len({each.partition for each in received}) > 1


@pytest.mark.capability("records")
def test_a_topic_with_log_append_time_stamps_records_itself(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    told = produce(bootstrap_servers, topic, text_records(50))
    received = consume(bootstrap_servers, topic, 50)
    after = int(time.time() * 1000)
    stamps = [each.record.timestamp for each in received]
    assert len(stamps) == 50
    assert before <= min(stamps) <= max(stamps) <= after
    assert [each.timestamp for each in told] == stamps


@pytest.mark.capability("positions")
def test_offsets_are_found_by_timestamp(bootstrap_servers: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    sent = [Record(None, b"%d" % n, (), 1_700_000_000_000 + 1_000 * n) for n in range(500)]
    produce(bootstrap_servers, topic, sent, batch_size=1_000)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    for wanted, offset in (
        (0, 0),
        (1_700_000_123_000, 123),
        (1_700_000_123_001, 124),
        (1_700_000_499_000, 499),
    ):
        found = consumer.offsets_for_times({partition: wanted})[partition]
        assert (found.offset, found.timestamp) == (offset, sent[offset].timestamp)
        consumer.seek(partition, found.offset)
        first = poll(consumer, 1)[0]
        assert (first.offset, first.record) == (offset, sent[offset])
    assert consumer.offsets_for_times({partition: 1_700_000_499_001})[partition] is None
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 500}
    consumer.close()


@pytest.mark.capability("positions")
def test_a_consumer_starts_where_it_says(bootstrap_servers: str, make_topic: MakeTopic) -> None:
    topic, sent = make_topic(), text_records(100)
    partition = TopicPartition(topic, 0)
    produce(bootstrap_servers, topic, sent[:90])
    latest = KafkaConsumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="latest")
    latest.assign([partition])
    assert latest.position(partition) == 90
    produce(bootstrap_servers, topic, sent[90:])
    check_one_partition(sent[90:], poll(latest, 10), 90)
    latest.seek_to_beginning(partition)
    check_one_partition(sent, poll(latest, 100))
    latest.seek(partition, 42)
    check_one_partition(sent[42:], poll(latest, 58), 42)
    latest.close()


@pytest.mark.capability("positions")
def test_a_waiting_consumer_gets_a_record_as_soon_as_it_is_there(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers, fetch_max_wait_ms=10_000)
    consumer.assign([TopicPartition(topic, 0)])
    consumer.poll(timeout_ms=200)
    start = time.monotonic()
    producer.send(topic, b"now").get(timeout=30)
    assert [each.record.value for each in poll(consumer, 1)] == [b"now"]
    assert time.monotonic() - start < 5
    consumer.close()
    producer.close()
