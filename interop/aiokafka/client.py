"""Send and read records with aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

from interop.support.records import Received, Record


async def produce(
    bootstrap_servers: str,
    topic: str,
    records: Iterable[Record],
    *,
    partition: int | None = None,
    **config: Any,
) -> list[Any]:
    """Send all records, wait until they are committed, and return the result of each.

    The client's default of acks=1 lets a cluster answer before anybody may read them.
    """
    config = {"acks": "all", **config}
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers, **config) as producer:
        futures = [
            await producer.send(
                topic,
                record.value,
                record.key,
                partition=partition,
                timestamp_ms=record.timestamp,
                headers=list(record.headers),
            )
            for record in records
        ]
        return await asyncio.wait_for(asyncio.gather(*futures), 30)


async def consume(
    bootstrap_servers: str, topic: str, count: int, *, partitions: int = 1, **config: Any
) -> list[Received]:
    """Return the first `count` records of the topic, read without a group."""
    async with AIOKafkaConsumer(
        bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest", **config
    ) as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
        return await poll(consumer, count)


async def poll(consumer: AIOKafkaConsumer, count: int) -> list[Received]:
    received: list[Received] = []

    async def fill() -> None:
        while len(received) < count:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                received.extend(map(as_received, records))

    await asyncio.wait_for(fill(), 30)
    return received


def as_received(record: ConsumerRecord[bytes, bytes]) -> Received:
    return Received(
        record.partition,
        record.offset,
        Record(record.key, record.value, tuple(record.headers), record.timestamp),
    )
