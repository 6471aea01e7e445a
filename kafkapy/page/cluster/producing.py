"""Writes one record, and says where it is.

The page writes with the codec, as it reads: kafka-python cannot write a header without a value.
"""

from __future__ import annotations

import random
import time
from typing import Final

from kafkapy.commands.connection.failures import check
from kafkapy.errors import UserError
from kafkapy.observe.murmur2 import partition_for
from kafkapy.page.cluster.topics import Place, Topic
from kafkapy.page.cluster.wire import Wire
from kafkapy.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafkapy.protocol.records import NO_TIMESTAMP, Record, build_batch

_BY_NAME: Final = 12
"""The last version of Produce that has names of topics; later ones have ids."""


def write(
    wire: Wire, topic: Topic, record: Record, partition: int | None, timeout: float
) -> tuple[Place, int]:
    """Write a record, acknowledged by all in-sync replicas; return its place and offset.

    Without a partition, it is the one that Java's producers choose for the key, or any without a key.

    Raises:
        UserError: the cluster refuses it, or there is no such partition.
    """
    count = len(topic.partitions)
    if partition is None:
        partition = random.randrange(count) if record.key is None else partition_for(record.key, count)
    if partition >= count:
        raise UserError(f"{topic.name} has no partition {partition}: it has {count}")
    place, leader = Place(topic.name, partition), topic.partitions[partition].leader
    if leader < 0:
        raise UserError(f"{topic.name}-{partition} has no leader now")
    if record.timestamp == NO_TIMESTAMP:
        record.timestamp = round(time.time() * 1000)
    data = PartitionProduceData(index=partition, records=bytes(build_batch([record])))
    request = ProduceRequest(
        acks=-1,
        timeout_ms=round(timeout * 1000),
        topic_data=[TopicProduceData(name=topic.name, partition_data=[data])],
    )
    answer = wire.ask(request, ProduceResponse, leader, newest=_BY_NAME, is_change=True)
    (result,) = answer.responses[0].partition_responses
    check(result.error_code, result.error_message, f"{topic.name}-{partition}")
    return place, result.base_offset
