"""Deletes the topics that are marked for deletion, in a cluster.

A marked topic leaves the image at once. Each broker is asked by StopReplica to delete its replicas. When
all have answered, the nodes of the topic can be deleted. A replica on a lost broker, or in a failed log
directory, delays that until the broker is back: its files would otherwise be left, and come back with it.

Source: Kafka's TopicDeletionManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

from kafkapy.controller import partition_states, replica_states
from kafkapy.controller.context import ControllerContext, Deletion, PartitionStatus, Replica, ReplicaStatus
from kafkapy.controller.expectations import Expectation, Expectations
from kafkapy.controller.state_changes import StateChanges
from kafkapy.controller.state_commits import PARTITIONS_AT_ONCE, StateCommits
from kafkapy.controller.topic_nodes import DELETED_AT_ONCE, delete_topic_nodes
from kafkapy.metadata import znodes
from kafkapy.metadata.image import Topic, read_topic
from kafkapy.metadata.store import MetadataStore
from kafkapy.metadata.writer import MetadataWriter
from kafkapy.metadata.znodes import DamagedNodeError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kafkapy.protocol.types import TopicPartition

logger = logging.getLogger(__name__)


def advance(changes: StateChanges, topic: Topic, index: int) -> None:
    """Ask those brokers to delete a partition that can be asked and have not been yet."""
    partition = TopicPartition(topic.name, index)
    if changes.status(partition) is not PartitionStatus.NON_EXISTENT:
        partition_states.move(changes, partition, PartitionStatus.OFFLINE)
        partition_states.move(changes, partition, PartitionStatus.NON_EXISTENT)
        changes.requests.update_metadata(changes.context.brokers, [partition])
    for broker in topic.partitions[index].replicas:
        replica = Replica(*partition, broker)
        status = changes.replica_status(replica)
        is_alive = broker in changes.context.brokers
        has_restarted = broker in changes.context.restarted
        if status is ReplicaStatus.DELETION_STARTED and (has_restarted or not is_alive):
            replica_states.move(changes, replica, ReplicaStatus.DELETION_INELIGIBLE)
            status = ReplicaStatus.DELETION_INELIGIBLE
        if status is ReplicaStatus.DELETION_INELIGIBLE and not has_restarted:
            continue
        if status not in (ReplicaStatus.DELETION_STARTED, ReplicaStatus.DELETION_SUCCESSFUL):
            replica_states.start_deletion(changes, replica)


def take_answer(
    changes: StateChanges, broker: int, request: StopReplicaRequest, response: StopReplicaResponse
) -> Counter[str]:
    """Note what a broker says of the replicas that it was asked to delete.

    Return how many it has deleted of each topic.
    """
    failed = {
        TopicPartition(error.topic_name, error.partition_index)
        for error in response.partition_errors
        if error.error_code != ErrorCode.NONE
    }
    deleted: Counter[str] = Counter()
    for partition in asked_to_delete(request):
        replica = Replica(*partition, broker)
        if changes.replica_status(replica) is not ReplicaStatus.DELETION_STARTED:
            continue
        if response.error_code == ErrorCode.NONE and partition not in failed:
            replica_states.move(changes, replica, ReplicaStatus.DELETION_SUCCESSFUL)
            deleted[partition.topic] += 1
        else:
            replica_states.move(changes, replica, ReplicaStatus.DELETION_INELIGIBLE)
    return deleted


def is_delayed(context: ControllerContext, topic: Topic) -> bool:
    """Whether a replica cannot be deleted now."""
    return any(
        context.replicas.get(Replica(topic.name, index, broker)) is ReplicaStatus.DELETION_INELIGIBLE
        for index, state in enumerate(topic.partitions)
        for broker in state.replicas
    )


def asked_to_delete(request: StopReplicaRequest) -> Iterator[TopicPartition]:
    """The partitions of which a request has a broker delete its replica."""
    for topic in request.topic_states:
        for state in topic.partition_states:
            if state.delete_partition:
                yield TopicPartition(topic.topic_name, state.partition_index)


class TopicDeletions:
    """The deletions of one controller.

    The caller holds the writer's turn.
    """

    def __init__(self, commits: StateCommits, writer: MetadataWriter, store: MetadataStore) -> None:
        self._commits = commits
        self._writer = writer
        self._store = store
        self._removed: dict[str, Topic] = {}
        """Topics that are not in the image any more, and whose replicas are not deleted yet."""
        self._expected: Expectations[str] = Expectations()

    def begin(self, topics: Collection[Topic], *, by_hand: bool = False) -> None:
        """Begin to delete topics that are marked, or whose nodes somebody has deleted `by_hand`."""
        self._commits.context.deletions.update(
            (topic.name, Deletion(topic, by_hand=by_hand)) for topic in topics
        )
        shown = [topic.name for topic in topics if topic.name in self._commits.image.topics]
        if shown and not by_hand:
            self._commits.publish(self._commits.image.with_topics(deleted=shown))

    def note_removed(self, topic: Topic) -> None:
        """Note that others have taken a topic out of the image."""
        self._removed[topic.name] = topic

    async def take_removed(self) -> None:
        """Begin to delete the replicas of topics that others have marked or deleted.

        Raises:
            MetadataStoreError: the store failed.
        """
        removed = dict(self._removed)
        marks = await self._store.nodes([znodes.delete_topic_path(name) for name in removed])
        marked: list[Topic] = []
        deleted: list[Topic] = []
        for name, topic in removed.items():
            del self._removed[name]
            if name not in self._commits.context.deletions:
                (marked if znodes.delete_topic_path(name) in marks else deleted).append(topic)
        self.begin(marked)
        self.begin(deleted, by_hand=True)

    async def take_marked(self) -> None:
        """Begin to delete all topics that are marked.

        Raises:
            KafkaError, MetadataStoreError: the metadata could not be read or changed.
        """
        deletions = self._commits.context.deletions
        marked = await self._store.children(znodes.DELETE_TOPICS)
        names = iter([name for name in marked if name not in deletions])
        while some := list(islice(names, DELETED_AT_ONCE)):
            shown = self._commits.image.topics
            topics = {name: shown[name] for name in some if name in shown}
            topics |= await self._read([name for name in some if name not in shown])
            self.begin(topics.values())
            if left := [name for name in some if name not in topics]:
                await delete_topic_nodes(self._writer, self._store, left, in_parts=True)

    def brokers_changed(self) -> None:
        """Let `advance` ask brokers again, since some came or went."""
        for deletion in self._commits.context.deletions.values():
            deletion.is_due = True

    async def advance(self) -> list[str]:
        """Ask the brokers that can be asked, and delete the nodes of topics without replicas.

        Return the names of the topics that are deleted now.

        Raises:
            KafkaError, MetadataStoreError: the metadata could not be changed.
        """
        context = self._commits.context
        await self._ask([deletion for deletion in context.deletions.values() if deletion.is_due])
        finished = [name for name, deletion in context.deletions.items() if not deletion.left]
        for start in range(0, len(finished), DELETED_AT_ONCE):
            names = finished[start : start + DELETED_AT_ONCE]
            marked = [name for name in names if not context.deletions[name].by_hand]
            if marked:
                await delete_topic_nodes(self._writer, self._store, marked, in_parts=True)
            for name in names:
                context.forget_topic(context.deletions.pop(name).topic)
                self._expected.happened(name)
        return finished

    async def take_answer(
        self, broker: int, request: StopReplicaRequest, response: StopReplicaResponse
    ) -> None:
        """Note what a broker has deleted.

        Raises:
            KafkaError: the metadata could not be read.
        """
        deleted = await self._commits.make(lambda changes: take_answer(changes, broker, request, response))
        for name, count in deleted.items():
            if name in self._commits.context.deletions:
                self._commits.context.deletions[name].left -= count

    def expect(self, topics: Iterable[Topic]) -> Expectation[str]:
        """Begin to wait until those topics are deleted whose replicas can be deleted now."""
        context = self._commits.context
        return self._expected.expect(
            [
                topic.name
                for topic in topics
                if topic.name in context.deletions and not is_delayed(context, topic)
            ]
        )

    async def wait(self, expectation: Expectation[str], seconds: float) -> None:
        """Wait, at most for this time; without the turn."""
        await self._expected.wait(expectation, seconds)

    def give_up(self) -> None:
        """End all waits: another broker is the controller."""
        self._expected.give_up()

    async def _ask(self, due: Sequence[Deletion]) -> None:
        partitions = [
            (deletion.topic, index) for deletion in due for index in range(len(deletion.topic.partitions))
        ]
        for start in range(0, len(partitions), PARTITIONS_AT_ONCE):
            some = partitions[start : start + PARTITIONS_AT_ONCE]

            def build(changes: StateChanges, some: Sequence[tuple[Topic, int]] = some) -> None:
                for topic, index in some:
                    advance(changes, topic, index)

            await self._commits.make(build)
            await asyncio.sleep(0)  # let other requests run
        for deletion in due:
            deletion.is_due = False

    async def _read(self, names: Sequence[str]) -> dict[str, Topic]:
        """Marked topics, which the image does not show; those without replicas are left out."""
        paths = [znodes.topic_path(name) for name in names]
        below, nodes = await asyncio.gather(self._store.subtree(*paths), self._store.nodes(paths))
        tree = nodes | below
        topics: dict[str, Topic] = {}
        for name, path in zip(names, paths, strict=True):
            if path not in nodes:
                continue
            try:
                topic = read_topic(tree, name)
            except DamagedNodeError as error:
                logger.error("the deletion of a topic leaves its replicas: %s", error)
                continue
            if topic is not None:
                topics[name] = topic
        return topics
