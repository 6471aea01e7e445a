"""Topic administration: creation, deletion, more partitions, and automatic creation.

A creation is one transaction (`/brokers/topics/<t>`, its partitions and their states, `/config/topics/<t>`).
Then the image is published, which creates the logs. A crash in between leaves a topic whose logs the next
start creates. The groups of topics of one request are committed side by side, and published in their order.

A deletion is marked first (`/admin/delete_topics/<t>`), then published, which removes the logs. Only then are
the nodes deleted. After a crash in between, the next start goes on with the deletion, so that no log is left
that nobody knows.

Others may write the tree, too. A topic of which somebody has written only the node gets its id, partitions
and leaders, and one that somebody has marked is deleted.

Source: Kafka's ReplicationControlManager (checks and messages), TopicDeletionManager, KafkaController (what
changes in the tree).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from kafkapy.configs.config import BrokerConfig
from kafkapy.controller.adoption import FoundLog, adopt_logs
from kafkapy.controller.topic_plans import MorePartitions, NewTopic, TopicPlanner
from kafkapy.metadata import znodes
from kafkapy.metadata.image import NO_NODE, Topic
from kafkapy.metadata.store import (
    Check,
    Create,
    Delete,
    MetadataStore,
    NodeError,
    NodeExistsError,
    NoNodeError,
    Operation,
    SetData,
)
from kafkapy.metadata.topic_names import collision_key
from kafkapy.metadata.writer import MetadataWriter
from kafkapy.metadata.znodes import DamagedNodeError, LeaderAndIsr, ReplicaAssignment
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import TopicPartition, Uuid, random_uuid

logger = logging.getLogger(__name__)


class TopicAdmin:
    """Creates and deletes topics.

    Each topic has one result: what became of it, or why it was refused.
    """

    def __init__(
        self,
        writer: MetadataWriter,
        store: MetadataStore,
        config: BrokerConfig,
        chance: random.Random | None = None,
    ) -> None:
        self._writer = writer
        self._store = store
        self._planner = TopicPlanner(config, chance or random.Random())

    # --- creation -----------------------------------------------------------------------------------------

    async def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, Topic | KafkaError]:
        """Create topics, whose names differ.

        With `validate_only`, only say what would become of them.

        Raises:
            KafkaError: NOT_CONTROLLER, or POLICY_VIOLATION for a request beyond all measure.
        """
        self._writer.require_controller()
        groups = self._planner.in_groups(wanted)
        results: dict[str, Topic | KafkaError] = {}
        collisions: dict[str, str] = {}
        async with self._writer.turn:
            overtaken: list[list[NewTopic]] = []
            async with asyncio.TaskGroup() as commits:
                committing = []
                for group in groups:
                    planned = self._plan(group, collisions, results)
                    results.update((topic.name, topic) for topic in planned)
                    if planned and not validate_only:
                        # All of them at once: they share the store's next sync.
                        committing.append((group, planned, commits.create_task(self._commit(planned))))
                    await asyncio.sleep(0)  # other connections have their turn
                for group, planned, commit in committing:
                    refused = await commit
                    if refused is None:
                        await self._writer.publish_new(self._writer.image.with_topics(planned))
                    elif isinstance(refused, KafkaError):
                        results.update((topic.name, refused) for topic in planned)
                    else:
                        names = {topic.name for topic in planned}
                        overtaken.append([new for new in group if new.name in names])
                    await asyncio.sleep(0)
            for group in overtaken:
                await self._create_overtaken(group, results)
        return results

    async def _create_overtaken(
        self, wanted: Sequence[NewTopic], results: dict[str, Topic | KafkaError]
    ) -> None:
        """Create topics of which others have made some, or nodes of some, meanwhile."""

        async def attempt() -> None:
            await self._writer.catch_up()
            free, config_versions = [], {}
            for new in wanted:
                version, config_versions[new.name] = await self._versions(new.name)
                if version == NO_NODE or new.name in self._writer.image.topics:
                    free.append(new)
                else:  # it has no id yet, or is about to be deleted
                    message = f"Topic '{new.name}' already exists."
                    results[new.name] = KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, message)
            planned = [
                replace(topic, config_version=config_versions[topic.name] + 1)
                for topic in self._plan(free, {}, results)
            ]
            refused = await self._commit(planned)
            if refused is not None:
                raise refused
            await self._writer.publish_new(self._writer.image.with_topics(planned))
            results.update((topic.name, topic) for topic in planned)

        try:
            await self._writer.until_current(attempt)
        except KafkaError as error:
            for new in wanted:
                if not isinstance(results[new.name], KafkaError):
                    results[new.name] = error

    async def _versions(self, name: str) -> tuple[int, int]:
        """The versions of a topic's node and of its settings' node, or NO_NODE."""
        paths = (znodes.topic_path(name), znodes.topic_config_path(name))
        topic, config = [await self._store.exists(path) for path in paths]
        return NO_NODE if topic is None else topic.version, NO_NODE if config is None else config.version

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

    async def _commit(self, topics: Sequence[Topic]) -> KafkaError | NodeError | None:
        """Write new topics; why that could not be. A NodeError: others have made one of the nodes."""
        operations: list[Operation] = []
        for topic in topics:
            operations.append(Create(znodes.topic_path(topic.name), _topic_data(topic)))
            operations.append(Create(znodes.partitions_path(topic.name)))
            operations += _partition_nodes(topic, 0)
            path, data = znodes.topic_config_path(topic.name), znodes.encode_config(topic.configs)
            # If a topic's node was deleted by hand, the node of its settings may be left.
            left = topic.config_version > 0
            operations.append(SetData(path, data, topic.config_version - 1) if left else Create(path, data))
        try:
            await self._writer.commit(operations)
        except (KafkaError, NodeError) as error:
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

                async def grow(more: MorePartitions = more) -> None:
                    topic = self._planner.grown_topic(more, self._writer.image, self._writer.controller_epoch)
                    if not validate_only:
                        await self._commit_more(topic)

                try:
                    await self._writer.until_current(grow)
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
                try:
                    topic = await self._writer.until_current(functools.partial(self._mark, topic_id))
                    await self._delete_marked(topic)
                    results[topic_id] = None
                except KafkaError as error:
                    results[topic_id] = error
        return results

    async def delete_marked_topics(self) -> None:
        """Delete topics that are marked for deletion.

        Somebody has marked them, or a stop interrupted their deletion. The caller holds the turn.

        Raises:
            KafkaError, MetadataStoreError: not all could be deleted.
        """
        for name in await self._store.children(znodes.DELETE_TOPICS):
            topic = self._writer.image.topics.get(name)
            if topic is not None:
                await self._delete_marked(topic)
            else:
                await self._delete_what_is_left(name)

    async def _mark(self, topic_id: Uuid) -> Topic:
        """Mark a topic for deletion."""
        topic = self._writer.image.topics_by_id.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        check = Check(znodes.topic_path(topic.name), topic.version)
        try:
            await self._writer.commit([check, Create(znodes.delete_topic_path(topic.name))])
        except NodeExistsError:
            logger.info("the topic %s is marked for deletion already", topic.name)
        return topic

    async def _delete_marked(self, topic: Topic) -> None:
        name = topic.name
        await self._writer.publish_deletion(self._writer.image.with_topics(deleted=[name]))
        operations: list[Operation] = []
        for index, state in enumerate(topic.partitions):
            operations.append(Delete(znodes.partition_state_path(name, index), state.version))
            operations.append(Delete(znodes.partition_path(name, index)))
        operations.append(Delete(znodes.partitions_path(name)))
        operations.append(Delete(znodes.topic_path(name), topic.version))
        operations.append(Delete(znodes.topic_config_path(name), topic.config_version))
        operations.append(Delete(znodes.delete_topic_path(name)))
        try:
            await self._writer.commit(operations)
        except NodeError:
            await self._delete_what_is_left(name)

    async def _delete_what_is_left(self, name: str) -> None:
        """Delete the nodes that a marked topic has now, which the image no longer shows."""

        async def attempt() -> None:
            path = znodes.topic_path(name)
            below = await self._store.subtree(path)
            found = [Delete(each, node.stat.version) for each, node in reversed(below.items())]
            for last in (path, znodes.topic_config_path(name), znodes.delete_topic_path(name)):
                stat = await self._store.exists(last)
                if stat is not None:
                    found.append(Delete(last, stat.version))
            await self._writer.commit(found)
            await self._writer.catch_up_with([path])  # while it is marked it is not read

        await self._writer.until_current(attempt)

    # --- what others have written -------------------------------------------------------------------------

    async def finish_topics(self) -> None:
        """Give topics of which only the node was written what they lack.

        Somebody else has written it. The caller holds the turn.

        Raises:
            KafkaError, MetadataStoreError: not all could be finished.
        """
        for name in sorted(self._writer.image.unfinished):
            await self._writer.until_current(functools.partial(self._finish, name))

    async def _finish(self, name: str) -> None:
        path = znodes.topic_path(name)
        try:
            node, below = await self._store.get(path), await self._store.subtree(path)
            topic_id, assignment = znodes.decode_topic(path, node.data)
        except (NoNodeError, DamagedNodeError):
            return  # what changes next is told of
        operations: list[Operation] = []
        if topic_id is None:
            operations.append(
                SetData(path, znodes.encode_topic(random_uuid(), assignment), node.stat.version)
            )
        if znodes.partitions_path(name) not in below:
            operations.append(Create(znodes.partitions_path(name)))
        for index, partition in enumerate(assignment):
            alive = tuple(each for each in partition.replicas if each in self._writer.image.brokers)
            if znodes.partition_path(name, index) not in below:
                operations.append(Create(znodes.partition_path(name, index)))
            state_path = znodes.partition_state_path(name, index)
            if state_path not in below and alive:
                state = LeaderAndIsr(alive[0], 0, alive, self._writer.controller_epoch)
                operations.append(Create(state_path, znodes.encode_state(state)))
        if operations:
            await self._writer.commit([Check(path, node.stat.version), *operations])
            await self._writer.catch_up_with([path])


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
