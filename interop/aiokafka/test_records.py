"""aiokafka: what is produced is what is consumed."""

from __future__ import annotations

import asyncio
import time

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from interop.aiokafka.client import consume, poll, produce
from interop.conftest import MakeTopic
from interop.support.records import (
    CODECS,
    Record,
    check_one_partition,
    check_partitions,
    sample_records,
    text_records,
)
from interop.support.waiting import wait_until


@pytest.mark.capability("records")
async def test_every_shape_of_record_comes_back_unchanged(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic, sent = make_topic(), sample_records(rare_nulls=False)
    told = await produce(bootstrap_servers, topic, sent)
    assert [(each.partition, each.offset) for each in told] == [(0, offset) for offset in range(len(sent))]
    check_one_partition(sent, await consume(bootstrap_servers, topic, len(sent)))


@pytest.mark.capability("codecs")
@pytest.mark.parametrize("codec", CODECS[1:])
async def test_compressed_records_come_back_unchanged(
    bootstrap_servers: str, make_topic: MakeTopic, codec: str
) -> None:
    topic, sent = make_topic(), sample_records(rare_nulls=False)
    await produce(bootstrap_servers, topic, sent, compression_type=codec, linger_ms=50)
    check_one_partition(sent, await consume(bootstrap_servers, topic, len(sent)))


@pytest.mark.capability("acks")
@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_records_arrive_with_every_kind_of_acknowledgement(
    bootstrap_servers: str, make_topic: MakeTopic, acks: int | str
) -> None:
    topic, sent = make_topic(), text_records(200)
    await produce(bootstrap_servers, topic, sent, acks=acks)
    check_one_partition(sent, await consume(bootstrap_servers, topic, len(sent)))


@pytest.mark.capability("idempotence")
async def test_an_idempotent_producer_writes_each_record_once_in_order(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic, sent = make_topic(), text_records(3_000)
    await produce(bootstrap_servers, topic, sent, enable_idempotence=True, max_batch_size=2_000)
    check_one_partition(sent, await consume(bootstrap_servers, topic, len(sent)))


@pytest.mark.capability("partitions")
async def test_records_with_keys_keep_their_order_over_six_partitions(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic, sent = make_topic(6), text_records(10_000)
    await produce(bootstrap_servers, topic, sent, compression_type="snappy", linger_ms=5)
    received = await consume(bootstrap_servers, topic, len(sent), partitions=6)
    check_partitions(sent, received)
    assert len({each.partition for each in received}) > 1


@pytest.mark.capability("records")
async def test_a_topic_with_log_append_time_stamps_records_itself(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    await produce(bootstrap_servers, topic, text_records(50))
    received = await consume(bootstrap_servers, topic, 50)
    after = int(time.time() * 1000)
    stamps = [each.record.timestamp for each in received]
    assert before <= min(stamps) <= max(stamps) <= after


@pytest.mark.capability("positions")
async def test_offsets_are_found_by_timestamp(bootstrap_servers: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    sent = [Record(None, b"%d" % n, (), 1_700_000_000_000 + 1_000 * n) for n in range(500)]
    await produce(bootstrap_servers, topic, sent, max_batch_size=1_000)
    partition = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap_servers) as consumer:
        consumer.assign([partition])
        for wanted, offset in ((0, 0), (1_700_000_123_000, 123), (1_700_000_123_001, 124)):
            found = (await consumer.offsets_for_times({partition: wanted}))[partition]
            assert (found.offset, found.timestamp) == (offset, sent[offset].timestamp)
            consumer.seek(partition, found.offset)
            first = await consumer.getone(partition)
            assert (first.offset, first.value) == (offset, sent[offset].value)
        assert (await consumer.offsets_for_times({partition: 1_700_000_499_001}))[partition] is None
        assert await consumer.beginning_offsets([partition]) == {partition: 0}
        assert await consumer.end_offsets([partition]) == {partition: 500}


@pytest.mark.capability("positions")
async def test_a_consumer_starts_where_it_says(bootstrap_servers: str, make_topic: MakeTopic) -> None:
    topic, sent = make_topic(), text_records(100)
    partition = TopicPartition(topic, 0)
    await produce(bootstrap_servers, topic, sent[:90])
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="latest") as consumer:
        consumer.assign([partition])
        assert await consumer.position(partition) == 90
        await produce(bootstrap_servers, topic, sent[90:])
        check_one_partition(sent[90:], await poll(consumer, 10), 90)
        await consumer.seek_to_beginning(partition)
        check_one_partition(sent, await poll(consumer, 100))
        consumer.seek(partition, 42)
        check_one_partition(sent[42:], await poll(consumer, 58), 42)
        assert consumer.highwater(partition) == 100


@pytest.mark.capability("positions")
async def test_a_waiting_consumer_gets_a_record_as_soon_as_it_is_there(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    async with (
        AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer,
        AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, fetch_max_wait_ms=10_000) as consumer,
    ):
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.position(TopicPartition(topic, 0))
        waiting = asyncio.create_task(consumer.getone())
        await asyncio.to_thread(wait_until, lambda: consumer._fetcher._in_flight)  # its fetch is sent
        start = time.monotonic()
        await producer.send_and_wait(topic, b"now")
        assert (await waiting).value == b"now"
        assert time.monotonic() - start < 5
