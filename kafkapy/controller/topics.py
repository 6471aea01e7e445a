"""Topic administration: creation, deletion, more partitions, and the topics that make themselves.

A creation is one transaction (`/brokers/topics/<t>`, its partitions and their states,
`/config/topics/<t>`), then the image is published, which creates the logs. A crash in between leaves a
topic whose logs are created at the next start. The groups of topics of one request are committed side by
side, and published in their order. A deletion is marked first (`/admin/delete_topics/<t>`),
then published, which removes the logs, and only then are the nodes deleted; after a crash in between the
next start goes on with it, so no log is left behind that nobody knows. Source: Kafka's
ReplicationControlManager (checks and messages), TopicDeletionManager.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Iterator, Mapping, Sequence

from kafkapy.config import BrokerConfig
from kafkapy.controller.adoption import FoundLog, adopt_logs
from kafkapy.controller.topic_plans import MorePartitions, NewTopic, TopicPlanner
from kafkapy.controller.writer import MetadataWriter
from kafkapy.metadata import znodes
from kafkapy.metadata.image import Topic
from kafkapy.metadata.store import Create, Delete, Operation, SetData
from kafkapy.metadata.znodes import LeaderAndIsr, ReplicaAssignment
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import TopicPartition, Uuid
from kafkapy.topic_names import collision_key


class TopicAdmin:
    """Creates and deletes topics. One result per topic: what became of it, or why it was refused."""

    def __init__(
        self, writer: MetadataWriter, config: BrokerConfig, chance: random.Random | None = None
    ) -> None:
        self._writer = writer
        self._planner = TopicPlanner(config, chance or random.Random())

    # --- creation -----------------------------------------------------------------------------------------

    async def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, Topic | KafkaError]:
        """Create topics, whose names differ; with `validate_only` only say what would become of them.

        Raises:
            KafkaError: NOT_CONTROLLER, or POLICY_VIOLATION for a request beyond all measure.
        """
        self._writer.require_controller()
        groups = self._planner.in_groups(wanted)
        results: dict[str, Topic | KafkaError] = {}
        collisions: dict[str, str] = {}
        async with self._writer.turn, asyncio.TaskGroup() as commits:
            committing = []
            for group in groups:
                planned = self._plan(group, collisions, results)
                results.update((topic.name, topic) for topic in planned)
                if planned and not validate_only:
                    # All of them at once: they share the store's next sync.
                    committing.append((planned, commits.create_task(self._commit(planned))))
                await asyncio.sleep(0)  # other connections have their turn
            for planned, commit in committing:
                refused = await commit
                if refused is None:
                    await self._writer.publish_new(self._writer.image.with_topics(planned))
                else:
                    results.update((topic.name, refused) for topic in planned)
                await asyncio.sleep(0)
        return results

    def _plan(
        self,
        wanted: Sequence[NewTopic],
        collisions: dict[str, str],
        results: dict[str, Topic | KafkaError],
    ) -> list[Topic]:
        """The topics that `wanted` become; those refused go to `results`."""
        image, epoch = self._writer.image, self._writer.controller_epoch
        planned = []
        for new in wanted:
            try:
                topic = self._planner.new_topic(new, image, collisions, epoch)
            except KafkaError as error:
                results[new.name] = error
                continue
            key = collision_key(topic.name)
            if key is not None:
                collisions[key] = topic.name
            planned.append(topic)
        return planned

    async def ensure_internal_topic(self, name: str) -> Topic:
        """The internal topic `name`, created if need be.

        Raises:
            KafkaError: it cannot be created.
        """
        topic = (await self.auto_create([name]))[name]
        if isinstance(topic, KafkaError):
            raise topic
        return topic

    async def auto_create(self, names: Collection[str]) -> dict[str, Topic | KafkaError]:
        """The topics of these names, created if need be, with the broker's defaults."""
        missing = [name for name in names if name not in self._writer.image.topics]
        results: dict[str, Topic | KafkaError] = {}
        if missing:
            try:
                image = self._writer.image
                wanted = [self._planner.automatic(name, image) for name in missing]
                results = await self.create_topics(wanted)
            except KafkaError as error:
                results = dict.fromkeys(missing, error)
        # Another client may have created one meanwhile: then it is there, whatever came of our own attempt.
        return {name: self._writer.image.topics.get(name) or results[name] for name in names}

    async def _commit(self, topics: Sequence[Topic]) -> KafkaError | None:
        """Write new topics; why that could not be."""
        operations: list[Operation] = []
        for topic in topics:
            operations.append(Create(znodes.topic_path(topic.name), _topic_data(topic)))
            operations.append(Create(znodes.partitions_path(topic.name)))
            operations += _partition_nodes(topic, 0)
            operations.append(
                Create(znodes.topic_config_path(topic.name), znodes.encode_config(topic.configs))
            )
        try:
            await self._writer.commit(operations)
        except KafkaError as error:
            return error
        return None

    async def adopt(self, found: Mapping[TopicPartition, FoundLog], node_id: int) -> None:
        """Make topics of logs that a new tree does not know."""
        async with self._writer.turn:
            topics = adopt_logs(found, node_id, self._planner, self._writer.image)
            if topics:
                refused = await self._commit(topics)
                if refused is not None:
                    raise refused
                await self._writer.publish_new(self._writer.image.with_topics(topics))

    # --- more partitions ----------------------------------------------------------------------------------

    async def create_partitions(
        self, wanted: Sequence[MorePartitions], *, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        """Add partitions to topics, whose names differ.

        Raises:
            KafkaError: NOT_CONTROLLER.
        """
        self._writer.require_controller()
        results: dict[str, KafkaError | None] = {}
        async with self._writer.turn:
            for more in wanted:
                try:
                    topic = self._planner.grown_topic(more, self._writer.image, self._writer.controller_epoch)
                    if not validate_only:
                        await self._commit_more(topic)
                    results[more.topic] = None
                except KafkaError as error:
                    results[more.topic] = error
                await asyncio.sleep(0)  # other connections have their turn between two topics
        return results

    async def _commit_more(self, topic: Topic) -> None:
        present = len(self._writer.image.topics[topic.name].partitions)
        await self._writer.commit(
            [
                SetData(znodes.topic_path(topic.name), _topic_data(topic), topic.version - 1),
                *_partition_nodes(topic, present),
            ]
        )
        await self._writer.publish_new(self._writer.image.with_topics([topic]))

    # --- deletion -----------------------------------------------------------------------------------------

    async def delete_topics(self, topic_ids: Collection[Uuid]) -> dict[Uuid, KafkaError | None]:
        """Delete topics by id.

        Raises:
            KafkaError: NOT_CONTROLLER.
        """
        self._writer.require_controller()
        results: dict[Uuid, KafkaError | None] = {}
        async with self._writer.turn:
            for topic_id in topic_ids:
                topic = self._writer.image.topics_by_id.get(topic_id)
                if topic is None:
                    results[topic_id] = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
                    continue
                try:
                    await self._writer.commit([Create(znodes.delete_topic_path(topic.name))])
                    await self._delete_marked(topic)
                    results[topic_id] = None
                except KafkaError as error:
                    results[topic_id] = error
        return results

    async def resume_deletions(self, marked: Collection[str]) -> None:
        """Go on with deletions that the last stop of this broker interrupted."""
        async with self._writer.turn:
            for name in marked:
                topic = self._writer.image.topics.get(name)
                if topic is not None:
                    await self._delete_marked(topic)
                else:
                    await self._writer.commit([Delete(znodes.delete_topic_path(name))])

    async def _delete_marked(self, topic: Topic) -> None:
        name = topic.name
        await self._writer.publish_deletion(self._writer.image.with_topics(deleted=[name]))
        operations: list[Operation] = []
        for index in range(len(topic.partitions)):
            operations.append(Delete(znodes.partition_state_path(name, index)))
            operations.append(Delete(znodes.partition_path(name, index)))
        operations.append(Delete(znodes.partitions_path(name)))
        operations.append(Delete(znodes.topic_path(name)))
        operations.append(Delete(znodes.topic_config_path(name)))
        operations.append(Delete(znodes.delete_topic_path(name)))
        await self._writer.commit(operations)


def _topic_data(topic: Topic) -> bytes:
    return znodes.encode_topic(
        topic.id,
        [ReplicaAssignment(state.replicas, state.adding, state.removing) for state in topic.partitions],
    )


def _partition_nodes(topic: Topic, first: int) -> Iterator[Create]:
    """The nodes of the topic's partitions from `first` on."""
    encoded: dict[LeaderAndIsr, bytes] = {}  # as a rule there are few: one for each leader
    for index in range(first, len(topic.partitions)):
        partition = topic.partitions[index]
        state = LeaderAndIsr(
            partition.leader, partition.leader_epoch, partition.isr, partition.controller_epoch
        )
        if state not in encoded:
            encoded[state] = znodes.encode_state(state)
        yield Create(znodes.partition_path(topic.name, index))
        yield Create(znodes.partition_state_path(topic.name, index), encoded[state])
