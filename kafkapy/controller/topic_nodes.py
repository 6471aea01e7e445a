"""The operations that write the nodes of topics, and the deletion of all that a topic has."""

from __future__ import annotations

from collections.abc import Iterator

from kafkapy.metadata import znodes
from kafkapy.metadata.image import NO_NODE, PartitionState, Topic
from kafkapy.metadata.store import Create, Delete, MetadataStore, Operation, SetData
from kafkapy.metadata.writer import MetadataWriter
from kafkapy.metadata.znodes import LeaderAndIsr, ReplicaAssignment
from kafkapy.protocol.types import TopicPartition


def topic_data(topic: Topic) -> bytes:
    """The content of a topic's node."""
    return znodes.encode_topic(
        topic.id,
        [ReplicaAssignment(state.replicas, state.adding, state.removing) for state in topic.partitions],
    )


def new_partitions(topic: Topic, first: int) -> Iterator[Create]:
    """The nodes of a topic's partitions from `first` on, with the states that there are."""
    encoded: dict[LeaderAndIsr, bytes] = {}  # usually few: one for each leader
    for index in range(first, len(topic.partitions)):
        if not topic.partitions[index].replicas:
            continue  # a gap: there is no partition of this number
        yield Create(znodes.partition_path(topic.name, index))
        if topic.partitions[index].version != NO_NODE:
            state = _content(topic.partitions[index])
            if state not in encoded:
                encoded[state] = znodes.encode_state(state)
            yield Create(znodes.partition_state_path(topic.name, index), encoded[state])


def state_written(partition: TopicPartition, state: PartitionState) -> Operation:
    """The operation that writes the state of a partition, of which it is the next version."""
    path, data = znodes.partition_state_path(*partition), znodes.encode_state(_content(state))
    return Create(path, data) if state.version == 0 else SetData(path, data, state.version - 1)


async def delete_topic_nodes(
    writer: MetadataWriter, store: MetadataStore, name: str, *, in_parts: bool
) -> None:
    """Delete all nodes that a marked topic has, its mark last. The caller holds the turn.

    With `in_parts`, a topic with many partitions takes several transactions. If this is interrupted, the mark
    is still there, and the deletion is done again.

    Raises:
        KafkaError: NOT_CONTROLLER, KAFKA_STORAGE_ERROR or REQUEST_TIMED_OUT.
    """

    async def attempt() -> None:
        path = znodes.topic_path(name)
        below = await store.subtree(path)
        found: list[Operation] = [Delete(each, node.stat.version) for each, node in reversed(below.items())]
        for last in (path, znodes.topic_config_path(name), znodes.delete_topic_path(name)):
            stat = await store.exists(last)
            if stat is not None:
                found.append(Delete(last, stat.version))
        if in_parts:
            await writer.commit_in_parts(found)
        else:
            await writer.commit(found)
        await writer.catch_up_with([path])  # while the topic was marked, the image ignored its node

    await writer.until_current(attempt)


def _content(state: PartitionState) -> LeaderAndIsr:
    return LeaderAndIsr(
        state.leader, state.leader_epoch, state.isr, state.controller_epoch, state.recovery_state
    )
