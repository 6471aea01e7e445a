"""The operations that write the nodes of topics, and the deletion of all that a topic has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from kafkapy.metadata import znodes
from kafkapy.metadata.image import NO_NODE, PartitionState, Topic
from kafkapy.metadata.store import Create, Delete, MetadataStore, Operation, SetData
from kafkapy.metadata.writer import MetadataWriter
from kafkapy.metadata.znodes import LeaderAndIsr, ReplicaAssignment
from kafkapy.protocol.types import TopicPartition

DELETED_AT_ONCE: Final = 64
"""How many topics are deleted together."""


def topic_data(topic: Topic) -> bytes:
    """The content of a topic's node."""
    return znodes.encode_topic(
        topic.id,
        [ReplicaAssignment(state.replicas, state.adding, state.removing) for state in topic.partitions],
    )


def new_partitions(topic: Topic, first: int) -> Iterator[Create]:
    """The nodes of a topic's partitions from `first` on, with the states that there are."""
    encoded, data = None, b""
    for index in range(first, len(topic.partitions)):
        state = topic.partitions[index]
        if not state.replicas:
            continue  # a gap: there is no partition of this number
        yield Create(znodes.partition_path(topic.name, index))
        if state.version != NO_NODE:
            if state is not encoded:  # new partitions share their states
                encoded, data = state, znodes.encode_state(_content(state))
            yield Create(znodes.partition_state_path(topic.name, index), data)


def state_written(partition: TopicPartition, state: PartitionState) -> Operation:
    """The operation that writes the state of a partition, of which it is the next version."""
    path, data = znodes.partition_state_path(*partition), znodes.encode_state(_content(state))
    return Create(path, data) if state.version == 0 else SetData(path, data, state.version - 1)


async def delete_topic_nodes(
    writer: MetadataWriter, store: MetadataStore, names: Sequence[str], *, in_parts: bool
) -> None:
    """Delete all nodes that marked topics have, their marks last.

    The caller holds the turn.

    With `in_parts`, many partitions take several transactions. If this is interrupted, the marks of topics
    that still have nodes are there, and their deletion is done again.

    Raises:
        KafkaError: NOT_CONTROLLER, KAFKA_STORAGE_ERROR or REQUEST_TIMED_OUT.
    """
    topics = [znodes.topic_path(name) for name in names]
    marks = [znodes.delete_topic_path(name) for name in names]
    # Parents come after their children, a topic's mark after all that the topic has.
    above = [*topics, *(znodes.topic_config_path(name) for name in names), *marks]

    async def attempt() -> None:
        below, last = await asyncio.gather(store.subtree(*topics), store.nodes(above))
        found = [*reversed(below.items()), *last.items()]
        operations: list[Operation] = [Delete(path, node.stat.version) for path, node in found]
        if in_parts:
            await writer.commit_in_parts(operations)
        else:
            await writer.commit(operations)
        await writer.catch_up_with(topics)  # while the topics were marked, the image ignored their nodes

    await writer.until_current(attempt)


def _content(state: PartitionState) -> LeaderAndIsr:
    return LeaderAndIsr(
        state.leader, state.leader_epoch, state.isr, state.controller_epoch, state.recovery_state
    )
