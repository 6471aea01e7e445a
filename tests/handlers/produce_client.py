"""Requests of a producer and a consumer over one raw connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafkapy.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkapy.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kafkapy.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from kafkapy.protocol.records import Record, build_batch, decode_records, iter_headers
from tests.network.raw_client import RawClient

PRODUCE_VERSION = 9
"""The last version before topic ids and with compact types."""

FETCH_VERSION = 12


def batch(*values: bytes, timestamp: int = 1_700_000_000_000, **options: Any) -> bytes:
    """A record batch with these values."""
    return bytes(build_batch([Record(-1, timestamp, b"key", value, []) for value in values], **options))


def broken(good: bytes) -> bytes:
    """A batch with a wrong CRC."""
    return good[:-1] + bytes([good[-1] ^ 1])


def create_topic(
    client: RawClient, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> bytes:
    """Create a topic; its id."""
    settings = [CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    (answer,) = client.ask(request, 7).topics
    assert answer.error_code == 0, answer
    return bytes(answer.topic_id)


def produce_request(
    topic: str,
    *batches: bytes | None,
    acks: int = -1,
    partitions: Sequence[int] | None = None,
    timeout_ms: int = 10_000,
) -> ProduceRequest:
    """A request that has one batch for each of the partitions (0, 1, ... by default)."""
    data = [
        PartitionProduceData(index=index, records=records)
        for index, records in zip(partitions or range(len(batches)), batches, strict=True)
    ]
    return ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )


def produce(
    client: RawClient, topic: str, *batches: bytes | None, version: int = PRODUCE_VERSION, **options: Any
) -> list[PartitionProduceResponse]:
    """Produce, and the answers of the partitions."""
    response = client.ask(produce_request(topic, *batches, **options), version)
    return list(response.responses[0].partition_responses)


def fetch_request(topic: str, *offsets: int, max_wait_ms: int = 0, **fields: Any) -> FetchRequest:
    """A request for the partitions 0, 1, ... from these offsets."""
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        for index, offset in enumerate(offsets)
    ]
    defaults = {"min_bytes": 1, "max_bytes": 50 << 20}
    return FetchRequest(
        topics=[FetchTopic(topic=topic, partitions=partitions)],
        max_wait_ms=max_wait_ms,
        **{**defaults, **fields},
    )


def fetch(client: RawClient, topic: str, *offsets: int, **fields: Any) -> list[PartitionData]:
    """Fetch without a session, and the answers of the partitions."""
    response: FetchResponse = client.ask(fetch_request(topic, *offsets, **fields), FETCH_VERSION)
    assert response.error_code == 0
    return [data for answered in response.responses for data in answered.partitions]


def stored(data: PartitionData) -> bytes:
    """The record batches in an answer."""
    records = data.records or b""
    assert isinstance(records, (bytes, memoryview))
    return bytes(records)


def values(data: PartitionData) -> list[bytes | None]:
    """The values of the records in an answer."""
    records = stored(data)
    return [
        record.value
        for position, header in iter_headers(records)
        for record in decode_records(records, position, header)
    ]
