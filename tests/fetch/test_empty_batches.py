"""Fetches of a topic most of whose segments compaction left without a record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as ClientPartition

from kafkapy import Broker
from kafkapy.broker.core import BrokerCore
from kafkapy.protocol.control_records import ControlType, control_record_key, end_txn_marker_value
from kafkapy.protocol.legacy_records import decode_message_set
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kafkapy.protocol.records import HEADER_SIZE, Record, build_batch, decode_records, iter_headers
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.storage.log.validate import AppendOrigin
from tests.handlers.produce_client import create_topic, stored
from tests.network.raw_client import RawClient
from tests.storage.cleaning.harness import compact
from tests.storage.log_harness import append

SEGMENTS = 30
PER_SEGMENT = 6
COUNT = SEGMENTS * PER_SEGMENT
LAST = [COUNT - 3, COUNT - 2, COUNT - 1, COUNT]
"""The offsets of the records that are left: one of each key, and one that was aborted."""

MAX_WAIT_MS = 60_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(data_dir=tmp_path_factory.mktemp("data")) as started:
        with RawClient(started.bootstrap_servers) as client:
            create_topic(client, "orders")
        started.call(fill)
        yield started


async def fill(core: BrokerCore) -> None:
    """Write each of three keys again and again, compact that, and write them once more.

    The last of these records are in a transaction that is aborted.
    """
    log = core.replicas.partition("orders", 0).log
    log.config = replace(log.config, segment_bytes=1000, cleanup_policy=frozenset({"compact"}))
    now_ms = core.clock.now_ms()
    records = [
        Record(-1, now_ms, b"key-%d" % (number % 3), b"value".ljust(100, b".")) for number in range(COUNT)
    ]
    for record in records:
        put(log, record)
    log.roll()
    compact(core.logs, log)
    sizes = [segment.size for segment in log.segments]
    assert sizes[: SEGMENTS - 2] == [HEADER_SIZE] * (SEGMENTS - 2)
    producer: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0, "transactional": True}
    put(log, records[-1], base_sequence=0, **producer)
    marker = Record(-1, now_ms, control_record_key(ControlType.ABORT), end_txn_marker_value(0))
    put(log, marker, control=True, **producer)


def put(log: PartitionLog, record: Record, **options: Any) -> None:
    origin = AppendOrigin.COORDINATOR if "control" in options else AppendOrigin.CLIENT
    batch = build_batch([record], **options)
    append(log, batch, origin=origin, now_ms=record.timestamp)
    log.advance_high_watermark(log.log_end_offset)


def fetched(broker: Broker, version: int, **fields: Any) -> PartitionData:
    """What a fetch from the start of the topic answers.

    It would wait for longer than the client does.
    """
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=fields.pop("size", 1 << 20))
    topics = [FetchTopic(topic="orders", partitions=[wanted])]
    request = FetchRequest(topics=topics, **{"max_wait_ms": MAX_WAIT_MS, "max_bytes": 1 << 20, **fields})
    with RawClient(broker.bootstrap_servers) as client:
        (answer,) = client.ask(request, version).responses
    (data,) = answer.partitions
    assert data.error_code == 0
    assert isinstance(data, PartitionData)
    return data


@pytest.mark.parametrize("isolation_level", [0, 1])
@pytest.mark.parametrize("min_bytes", [1, 2 * HEADER_SIZE])
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_fetch_passes_by_segments_without_records_and_does_not_wait(
    broker: Broker, isolation_level: int, min_bytes: int, size: int
) -> None:
    data = fetched(broker, 12, isolation_level=isolation_level, min_bytes=min_bytes, size=size)
    batches = stored(data)
    assert min(
        record.offset
        for at, header in iter_headers(batches)
        for record in decode_records(batches, at, header)
    )
    assert (data.aborted_transactions is None) == (isolation_level == 0)


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("size", [1 << 10, 1 << 20])
def test_an_old_client_is_answered_at_once_with_what_is_behind_segments_without_records(
    broker: Broker, version: int, size: int
) -> None:
    data = fetched(broker, version, min_bytes=2 * HEADER_SIZE, size=size)
    assert decode_message_set(stored(data))


@pytest.mark.parametrize(
    ("isolation_level", "expected"), [("read_committed", LAST[:-1]), ("read_uncommitted", LAST)]
)
def test_a_consumer_of_librdkafka_reads_to_the_end_without_an_error(
    broker: Broker, isolation_level: str, expected: list[int]
) -> None:
    """It doubles what it asks for with each answer that has no record.

    Past 1 GiB it tells the application.
    """
    settings = {"group.id": "unused", "enable.partition.eof": True, "isolation.level": isolation_level}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, **settings})
    consumer.assign([ClientPartition("orders", 0, 0)])
    found = []
    while True:
        message = consumer.poll(10)
        assert message is not None
        error = message.error()
        if error:
            assert error.code() == KafkaError._PARTITION_EOF, error
            break
        found.append(message.offset())
    consumer.close()
    assert found == expected
