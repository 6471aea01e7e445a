"""Requests of producers and consumers for one topic, with its name or its id."""

from __future__ import annotations

from typing import Any

from interop.differential.brokers import Broker
from interop.support.waiting import wait_until
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE = 11
"""A version in which requests name topics."""
FETCH = 12
FIRST_WITH_IDS = 13
MIB = 1 << 20


def produce_request(
    broker: Broker, topic: str, *records: bytes | None, version: int = PRODUCE, acks: int = -1, **fields: Any
) -> ProduceRequest:
    """One batch for each of the partitions 0, 1, ..."""
    data = [PartitionProduceData(index=index, records=each) for index, each in enumerate(records)]
    named = {"topic_id": broker.topic_id(topic)} if version >= FIRST_WITH_IDS else {"name": topic}
    return ProduceRequest(
        acks=acks, timeout_ms=10_000, topic_data=[TopicProduceData(**named, partition_data=data)], **fields
    )


def produce(
    broker: Broker, label: str, topic: str, *records: bytes | None, version: int = PRODUCE, **fields: Any
) -> Any:
    request = produce_request(broker, topic, *records, version=version, **fields)
    return broker.ask(label, request, version)


def fetch_request(
    broker: Broker,
    topic: str,
    *offsets: int,
    version: int = FETCH,
    partition_max_bytes: int = MIB,
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    forget: list[int] | None = None,
    **fields: Any,
) -> FetchRequest:
    """The partitions 0, 1, ... from these offsets; -1 leaves a partition out."""
    partitions = [
        FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=leader_epoch,
            last_fetched_epoch=last_fetched_epoch,
        )
        for index, offset in enumerate(offsets)
        if offset != -1
    ]
    named = {"topic_id": broker.topic_id(topic)} if version >= FIRST_WITH_IDS else {"topic": topic}
    settings = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 50 * MIB, **fields}
    return FetchRequest(
        topics=[FetchTopic(**named, partitions=partitions)] if partitions else [],
        forgotten_topics_data=[ForgottenTopic(**named, partitions=forget)] if forget else [],
        **settings,
    )


def fetch(broker: Broker, label: str, topic: str, *offsets: int, version: int = FETCH, **fields: Any) -> Any:
    request = fetch_request(broker, topic, *offsets, version=version, **fields)
    return broker.ask(label, request, version)


def new_producer_id(broker: Broker) -> int:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    # Apache Kafka has to fetch a block of ids first, and meanwhile refuses.
    answer = wait_until(lambda: _ready(broker.main.quietly(request, 1)))
    return int(answer.producer_id)


def _ready(answer: Any) -> Any:
    return answer if answer.error_code == 0 else None
