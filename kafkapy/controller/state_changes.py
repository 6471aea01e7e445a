"""The changes of one event: states to write, states of the machines, requests to send.

The state machines collect it here and do no I/O. Then `StateCommits` writes the states, publishes the image,
puts the rest into the context, and sends the requests. If the write fails, nothing has changed.

However often the machines change a partition for one event, it is written once, and its leader epoch grows by
one. Brokers never hear of the steps between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kafkapy.controller.context import ControllerContext, PartitionStatus, Replica, ReplicaStatus
from kafkapy.controller.leader_election import Elected
from kafkapy.controller.request_batch import RequestBatch
from kafkapy.controller.topic_nodes import state_written, topic_data
from kafkapy.metadata import znodes
from kafkapy.metadata.image import NO_LEADER, NO_NODE, MetadataImage, PartitionState, Topic, is_unfinished
from kafkapy.metadata.store import Operation, SetData
from kafkapy.protocol.types import TopicPartition


class StateChanges:
    """The changes of one event, on top of an image and a context."""

    def __init__(self, image: MetadataImage, context: ControllerContext, controller_epoch: int) -> None:
        self.context = context
        self.requests = RequestBatch()
        self.elections = self.unclean_elections = 0
        """How many partitions get another leader, and how many of these one that is not in sync."""
        self._image = image
        self._controller_epoch = controller_epoch
        self._states: dict[TopicPartition, PartitionState] = {}
        self._written: dict[TopicPartition, None] = {}
        """The partitions whose states must be written."""
        self._assigned: dict[str, None] = {}
        """The topics whose replicas must be written."""
        self._partitions: dict[TopicPartition, PartitionStatus] = {}
        self._replicas: dict[Replica, ReplicaStatus] = {}

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._states)

    def find(self, partition: TopicPartition) -> PartitionState | None:
        """The state of a partition after these changes, or None if there is no such partition."""
        return self._states.get(partition) or self._image.partition(*partition)

    def state(self, partition: TopicPartition) -> PartitionState:
        """The state of a partition that exists."""
        state = self.find(partition)
        assert state is not None
        return state

    def status(self, partition: TopicPartition) -> PartitionStatus:
        known = self._partitions.get(partition) or self.context.partitions.get(partition)
        return known or PartitionStatus.NON_EXISTENT

    def replica_status(self, replica: Replica) -> ReplicaStatus:
        known = self._replicas.get(replica) or self.context.replicas.get(replica)
        return known or ReplicaStatus.NON_EXISTENT

    def set_status(self, partition: TopicPartition, status: PartitionStatus) -> None:
        self._partitions[partition] = status

    def set_replica_status(self, replica: Replica, status: ReplicaStatus) -> None:
        self._replicas[replica] = status

    def write(self, partition: TopicPartition, elected: Elected) -> None:
        """Give a partition a leader and in-sync replicas, in a new leader epoch."""
        before = self._before(partition)
        if before.version != NO_NODE and elected.leader not in (NO_LEADER, before.leader):
            self.elections += 1
            self.unclean_elections += elected.leader not in before.isr
        self._write(partition, elected, 0 if before.version == NO_NODE else before.leader_epoch + 1)

    def write_isr(self, partition: TopicPartition, isr: tuple[int, ...], recovery_state: int) -> None:
        """Give a partition other in-sync replicas in the same leader epoch."""
        state = self.state(partition)
        self._write(partition, Elected(state.leader, isr, recovery_state), state.leader_epoch)

    def assign(
        self,
        partition: TopicPartition,
        replicas: Sequence[int],
        adding: Sequence[int] = (),
        removing: Sequence[int] = (),
    ) -> None:
        """Give a partition other replicas."""
        self._states[partition] = self.state(partition)._replace(
            replicas=tuple(replicas), adding=tuple(adding), removing=tuple(removing)
        )
        self._assigned[partition.topic] = None

    def operations(self) -> list[Operation]:
        """The operations that write the changes, if nobody else has changed the same nodes."""
        operations = [state_written(partition, self._states[partition]) for partition in self._written]
        for topic in self._topics():
            if topic.name in self._assigned:
                path, data = znodes.topic_path(topic.name), topic_data(topic)
                operations.append(SetData(path, data, topic.version - 1))
        return operations

    def image(self) -> MetadataImage:
        """The image with the changes."""
        topics = self._topics()
        image = self._image.with_topics(topics)
        finished = {topic.name for topic in topics if not is_unfinished(topic)}
        if finished & image.unfinished:
            image = replace(image, unfinished=image.unfinished - finished)
        return image

    def _before(self, partition: TopicPartition) -> PartitionState:
        """The state of a partition before these changes."""
        state = self._image.partition(*partition)
        assert state is not None
        return state

    def _write(self, partition: TopicPartition, elected: Elected, leader_epoch: int) -> None:
        leader, isr, recovery_state = elected
        self._written[partition] = None
        self._states[partition] = self.state(partition)._replace(
            leader=leader,
            leader_epoch=leader_epoch,
            isr=isr,
            controller_epoch=self._controller_epoch,
            version=self._before(partition).version + 1,
            recovery_state=recovery_state,
        )

    def _topics(self) -> list[Topic]:
        """The changed topics."""
        by_topic: dict[str, list[PartitionState]] = {}
        for (name, index), state in self._states.items():
            if name not in by_topic:
                by_topic[name] = list(self._image.topics[name].partitions)
            by_topic[name][index] = state
        return [
            replace(
                self._image.topics[name],
                partitions=tuple(partitions),
                version=self._image.topics[name].version + (name in self._assigned),
            )
            for name, partitions in by_topic.items()
        ]

    def put_into_context(self) -> None:
        """Let the context have the new states of the machines."""
        for partition, status in self._partitions.items():
            if status is PartitionStatus.NON_EXISTENT:
                self.context.partitions.pop(partition, None)
            else:
                self.context.partitions[partition] = status
        for replica, found in self._replicas.items():
            if found is ReplicaStatus.NON_EXISTENT:
                self.context.replicas.pop(replica, None)
            else:
                self.context.replicas[replica] = found
