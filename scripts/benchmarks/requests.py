"""Requests that several loads send."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from typing import Final

from kafkapy.configs.kind import ResourceType
from kafkapy.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.records import Record, build_batch
from scripts.benchmarks.wire import exchange

PRODUCE_VERSION: Final = 9

_QUOTAS_VERSION: Final = 1
_CONFIGS_VERSION: Final = 1


def batch(*values: bytes) -> bytes:
    """A batch with a record of now for each value."""
    now_ms = int(time.time() * 1000)
    return bytes(build_batch(Record(timestamp=now_ms, value=value) for value in values))


def produce(topic: str, *batches: bytes, acks: int = -1) -> ProduceRequest:
    """A batch to each of the first partitions of a topic."""
    data = [PartitionProduceData(index=index, records=batch) for index, batch in enumerate(batches)]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    return ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=topics)


def set_quotas(connection: socket.socket, client_id: str, quotas: Mapping[str, float]) -> None:
    """Give the clients of an id these quotas; raises RuntimeError if they are refused."""
    entry = AlterClientQuotasRequestEntryData(
        entity=[EntityData(entity_type="client-id", entity_name=client_id)],
        ops=[OpData(key=name, value=value, remove=False) for name, value in quotas.items()],
    )
    (answer,) = exchange(connection, AlterClientQuotasRequest(entries=[entry]), _QUOTAS_VERSION).entries
    if answer.error_code:
        raise RuntimeError(f"the quotas were refused: {answer.error_message}")


def set_config(connection: socket.socket, kind: ResourceType, resource: str, name: str, value: str) -> None:
    """Change a setting that no client of Python can; raises RuntimeError if it is refused."""
    changed = AlterConfigsResource(
        resource_type=kind, resource_name=resource, configs=[AlterableConfig(name=name, value=value)]
    )
    request = IncrementalAlterConfigsRequest(resources=[changed])
    (answer,) = exchange(connection, request, _CONFIGS_VERSION).responses
    if answer.error_code:
        raise RuntimeError(f"{name} was refused: {answer.error_message}")
