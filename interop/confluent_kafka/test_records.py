"""confluent-kafka: what is produced is what is consumed."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from interop.confluent_kafka.client import consume, poll, produce
from interop.conftest import MakeTopic
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
    topic, sent = make_topic(), sample_records()
    told = produce(bootstrap_servers, topic, sent)
    assert [(each.partition(), each.offset()) for each in told] == [
        (0, offset) for offset in range(len(sent))
    ]
    check_one_partition(sent, consume(bootstrap_servers, topic, len(sent)))


@pytest.mark.capability("codecs")
@pytest.mark.parametrize("codec", CODECS[1:])
def test_compressed_records_come_back_unchanged(
    bootstrap_servers: str, make_topic: MakeTopic, codec: str
) -> None:
    topic, sent = make_topic(), sample_records()
    produce(bootstrap_servers, topic, sent, compression_type=codec, linger_ms=50)
    check_one_partition(sent, consume(bootstrap_servers, topic, len(sent)))


@pytest.mark.capability("codecs")
@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_topic_with_a_codec_of_its_own_compresses_again(
    bootstrap_servers: str, make_topic: MakeTopic, codec: str
) -> None:
    topic, sent = make_topic(compression_type=codec), sample_records()
    produce(
        bootstrap_servers, topic, sent, compression_type="gzip" if codec != "gzip" else "lz4", linger_ms=50
    )
    check_one_partition(sent, consume(bootstrap_servers, topic, len(sent)))


@pytest.mark.capability("acks")
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_arrive_with_every_kind_of_acknowledgement(
    bootstrap_servers: str, make_topic: MakeTopic, acks: str
) -> None:
    topic, sent = make_topic(), text_records(200)
    produce(bootstrap_servers, topic, sent, acks=acks)
    check_one_partition(sent, consume(bootstrap_servers, topic, len(sent)))


@pytest.mark.capability("idempotence")
def test_an_idempotent_producer_writes_each_record_once_in_order(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic, sent = make_topic(), text_records(20_000)
    produce(bootstrap_servers, topic, sent, enable_idempotence=True, batch_num_messages=100, linger_ms=0)
    check_one_partition(sent, consume(bootstrap_servers, topic, len(sent)))


@pytest.mark.capability("partitions")
def test_records_with_keys_keep_their_order_over_six_partitions(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic, sent = make_topic(6), text_records(50_000)
    produce(bootstrap_servers, topic, sent, compression_type="zstd")
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
    assert before <= min(stamps) <= max(stamps) <= after
    assert [each.timestamp() for each in told] == [(TIMESTAMP_LOG_APPEND_TIME, stamp) for stamp in stamps]


@pytest.mark.capability("positions")
def test_offsets_are_found_by_timestamp(bootstrap_servers: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    sent = [Record(None, b"%d" % n, (), 1_700_000_000_000 + 1_000 * n) for n in range(5_000)]
    produce(bootstrap_servers, topic, sent, batch_num_messages=50)
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "unused"})
    for wanted in (0, 1, 2_500, 4_999):
        timestamp = sent[wanted].timestamp
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], 10)
        assert found.offset == wanted
        (between,) = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp - 999)], 10)
        assert between.offset == wanted
        consumer.assign([TopicPartition(topic, 0, found.offset)])
        check_one_partition(sent[wanted : wanted + 1], poll(consumer, 1), wanted)
    (after,) = consumer.offsets_for_times([TopicPartition(topic, 0, sent[-1].timestamp + 1)], 10)
    assert after.offset == -1
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), 10) == (0, 5_000)
    consumer.close()


@pytest.mark.capability("positions")
def test_a_consumer_starts_where_it_says(bootstrap_servers: str, make_topic: MakeTopic) -> None:
    topic, sent = make_topic(), text_records(100)
    produce(bootstrap_servers, topic, sent)
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "unused", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, 0, -5 - 2000)])  # librdkafka's OFFSET_TAIL(5)
    check_one_partition(sent[95:], poll(consumer, 5), 95)
    with pytest.raises(KafkaException) as end:
        poll(consumer, 1)
    assert end.value.args[0].code() == KafkaError._PARTITION_EOF
    consumer.seek(TopicPartition(topic, 0, 42))
    check_one_partition(sent[42:43], poll(consumer, 1), 42)
    consumer.close()


@pytest.mark.capability("records")
def test_a_million_small_records_arrive_in_order(bootstrap_servers: str, make_topic: MakeTopic) -> None:
    topic, count = make_topic(), 1_000_000
    producer = Producer({"bootstrap.servers": bootstrap_servers, "queue.buffering.max.messages": count + 1})
    for n in range(count):
        producer.produce(topic, b"%d" % n)
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "unused"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    expected, deadline = 0, time.monotonic() + 60
    while expected < count and time.monotonic() < deadline:
        for message in consumer.consume(10_000, 1):
            assert (message.offset(), message.value()) == (expected, b"%d" % expected)
            expected += 1
    consumer.close()
    assert expected == count
