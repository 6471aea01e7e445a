"""Stock clients at a damaged range.

They get what lies before it, an error they do not hide, and what lies after it once they seek there. None
skips in silence, and none hangs the broker.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path

import aiokafka
import aiokafka.errors
import kafka
import kafka.errors
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.servers.kafkapy_process import KafkapyProcess

RECORDS = 30
DAMAGED = 12
DEADLINE = 30.0


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[KafkapyProcess]:
    """A broker with 30 batches of one record.

    The batch at offset 12 has rotted while it was down.
    """
    with KafkapyProcess(tmp_path) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(RECORDS):
            producer.produce("topic", b"record %02d" % number, partition=0)
            assert producer.flush(DEADLINE) == 0
        broker.stop()
        log = tmp_path / "data" / "topic-0" / f"{0:020d}.log"
        log.write_bytes(log.read_bytes().replace(b"record %02d" % DAMAGED, b"rotten %02d" % DAMAGED))
        broker.start()
        yield broker


def check_log(broker: KafkapyProcess) -> None:
    found = re.search(r"Offsets (\d+) to (\d+) of topic-0 are damaged", broker.log_path.read_text())
    assert found is not None
    assert (found[1], found[2]) == (str(DAMAGED), str(DAMAGED))
    assert broker.log_path.read_text().count("are damaged") == 1, "the damage is reported again and again"


def test_librdkafka_reports_the_damage_and_reads_on_behind_it(damaged: KafkapyProcess) -> None:
    consumer = Consumer({"bootstrap.servers": damaged.bootstrap_servers, "group.id": "g"})
    consumer.assign([TopicPartition("topic", 0, 0)])
    offsets: list[int | None] = []
    errors: list[int] = []
    deadline = time.monotonic() + DEADLINE
    while len(offsets) < RECORDS - 1:
        assert time.monotonic() < deadline, (offsets, errors)
        message = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            offsets.append(message.offset())
            continue
        errors.append(error.code())
        consumer.seek(TopicPartition("topic", 0, DAMAGED + 1))
    consumer.close()
    assert offsets == [number for number in range(RECORDS) if number != DAMAGED]
    assert set(errors) == {KafkaError.INVALID_MSG}
    check_log(damaged)


def test_kafka_python_raises_at_the_damage_and_reads_on_behind_it(damaged: KafkapyProcess) -> None:
    consumer = kafka.KafkaConsumer(bootstrap_servers=damaged.bootstrap_servers, auto_offset_reset="none")
    partition = kafka.TopicPartition("topic", 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    offsets: list[int] = []
    failed = False
    deadline = time.monotonic() + DEADLINE
    while len(offsets) < RECORDS - 1:
        assert time.monotonic() < deadline, (offsets, failed)
        try:
            for records in consumer.poll(1000).values():
                offsets += [record.offset for record in records]
        except kafka.errors.KafkaError:
            failed = True
            consumer.seek(partition, DAMAGED + 1)
    consumer.close()
    assert failed
    assert offsets == [number for number in range(RECORDS) if number != DAMAGED]


def test_aiokafka_does_not_read_past_the_damage_in_silence(damaged: KafkapyProcess) -> None:
    partition = aiokafka.TopicPartition("topic", 0)

    async def read() -> list[int]:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=damaged.bootstrap_servers, auto_offset_reset="none", enable_auto_commit=False
        )
        await consumer.start()
        try:
            consumer.assign([partition])
            consumer.seek(partition, 0)
            offsets: list[int] = []
            deadline = time.monotonic() + DEADLINE
            while len(offsets) < RECORDS - 1:
                assert time.monotonic() < deadline, offsets
                try:
                    found = await consumer.getmany(partition, timeout_ms=1000)
                except aiokafka.errors.KafkaError:
                    found = {}
                for records in found.values():
                    offsets += [record.offset for record in records]
                if not found and len(offsets) == DAMAGED:
                    consumer.seek(partition, DAMAGED + 1)
            return offsets
        finally:
            await consumer.stop()

    assert asyncio.run(read()) == [number for number in range(RECORDS) if number != DAMAGED]
