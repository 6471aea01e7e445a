"""Topic administration: creation, deletion, more partitions, and the topics that make themselves.

A creation is one transaction (`/brokers/topics/<t>`, its partitions and their states,
`/config/topics/<t>`), then the image is published, which creates the logs. A crash in between leaves a
topic whose logs are created at the next start. A deletion is marked first (`/admin/delete_topics/<t>`),
then published, which removes the logs, and only then are the nodes deleted; after a crash in between the
next start goes on with it, so no log is left behind that nobody knows. Source: Kafka's
ReplicationControlManager (checks and messages), TopicDeletionManager.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafkapy.config import BrokerConfig
from kafkapy.controller.assignment import assign_replicas, check_manual_replicas
from kafkapy.controller.config_values import check_topic_configs
from kafkapy.controller.writer import MetadataWriter
from kafkapy.metadata import znodes
from kafkapy.metadata.image import PartitionState, Topic
from kafkapy.metadata.store import Create, Delete, Operation, SetData
from kafkapy.metadata.znodes import LeaderAndIsr, ReplicaAssignment
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import Uuid, random_uuid
from kafkapy.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, collision_key, why_invalid

DEFAULT = -1
"""A number of partitions or replicas that is left to the broker."""

MAX_PARTITIONS_PER_REQUEST = 10_000
_PARTITIONS_AT_ONCE = 64
"""Partitions of different topics that are committed and published together: what the event loop waits for."""


@dataclass(slots=True)
class NewTopic:
    """A topic that a client asks for; `assignments` are (partition, replicas)."""

    name: str
    num_partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(slots=True)
class MorePartitions:
    """A topic that is to have `count` partitions; `assignments` are the replicas of the new ones."""

    topic: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


class TopicAdmin:
    """Creates and deletes topics. One result per topic: what became of it, or why it was refused."""

    def __init__(
        self, writer: MetadataWriter, config: BrokerConfig, chance: random.Random | None = None
    ) -> None:
        self._writer = writer
        self._config = config
        self._chance = chance or random.Random()

    # --- creation -----------------------------------------------------------------------------------------

    async def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, Topic | KafkaError]:
        """Create topics, whose names differ; with `validate_only` only say what would become of them.

        Raises:
            KafkaError: NOT_CONTROLLER, or POLICY_VIOLATION for a request beyond all measure.
        """
        self._writer.require_controller()
        if sum(self._partition_count(new) for new in wanted) > MAX_PARTITIONS_PER_REQUEST:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
            )
        results: dict[str, Topic | KafkaError] = {}
        async with self._writer.turn:
            planned: list[Topic] = []
            for new in wanted:
                try:
                    planned.append(self._plan(new, planned))
                except KafkaError as error:
                    results[new.name] = error
            for group in _in_groups(planned):
                try:
                    if not validate_only:
                        await self._commit(group)
                    results.update((topic.name, topic) for topic in group)
                except KafkaError as error:
                    results.update((topic.name, error) for topic in group)
        return results

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
                results = await self.create_topics([self._auto_created(name) for name in missing])
            except KafkaError as error:
                results = dict.fromkeys(missing, error)
        # Another client may have created one meanwhile: then it is there, whatever came of our own attempt.
        return {name: self._writer.image.topics.get(name) or results[name] for name in names}

    def _auto_created(self, name: str) -> NewTopic:
        """What Kafka's AutoTopicCreationManager makes of a name."""
        config = self._config
        if name == GROUP_METADATA_TOPIC:
            partitions, replicas = (
                config["offsets.topic.num.partitions"],
                config["offsets.topic.replication.factor"],
            )
            configs = {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config["offsets.topic.segment.bytes"]),
            }
        elif name == TRANSACTION_STATE_TOPIC:
            partitions = config["transaction.state.log.num.partitions"]
            replicas = config["transaction.state.log.replication.factor"]
            configs = {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config["transaction.state.log.min.isr"]),
                "segment.bytes": str(config["transaction.state.log.segment.bytes"]),
                "unclean.leader.election.enable": "false",
            }
        else:
            return NewTopic(name)
        # An internal topic must come into being on a cluster that is smaller than its settings foresee.
        replicas = max(1, min(replicas, len(self._writer.image.brokers)))
        return NewTopic(name, partitions, replicas, configs=configs)

    def _partition_count(self, new: NewTopic) -> int:
        if new.assignments:
            return len(new.assignments)
        return int(self._config["num.partitions"]) if new.num_partitions == DEFAULT else new.num_partitions

    def _plan(self, new: NewTopic, planned: Sequence[Topic]) -> Topic:
        """The topic that `new` would become.

        Raises:
            KafkaError: it is refused.
        """
        image = self._writer.image
        message = why_invalid(new.name)
        if message is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
        if new.name in image.topics:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{new.name}' already exists.")
        key = collision_key(new.name)
        if key is not None:
            other = image.collisions.get(key) or next(
                (topic.name for topic in planned if collision_key(topic.name) == key), None
            )
            if other is not None:
                raise KafkaError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"Topic '{new.name}' collides with existing topic: {other}",
                )
        configs = {name: value for name, value in new.configs.items() if value is not None}
        if len(configs) < len(new.configs):
            nulls = ",".join(name for name, value in new.configs.items() if value is None)
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {nulls}")
        if configs:
            check_topic_configs(configs, self._config.topic_defaults())
        partitions = tuple(self._new_partition(replicas) for replicas in self._replicas(new))
        return Topic(new.name, random_uuid(), partitions, configs)

    def _replicas(self, new: NewTopic) -> list[tuple[int, ...]]:
        """The replicas of each partition of a new topic."""
        brokers = self._writer.image.brokers
        if new.assignments:
            if new.replication_factor != DEFAULT:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "A manual partition assignment was specified, but replication factor was not set to -1.",
                )
            if new.num_partitions != DEFAULT:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "A manual partition assignment was specified, but numPartitions was not set to -1.",
                )
            by_partition: dict[int, tuple[int, ...]] = {}
            for partition, replicas in new.assignments:
                if partition in by_partition:
                    raise KafkaError(
                        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                        f"Found multiple manual partition assignments for partition {partition}",
                    )
                factor = len(next(iter(by_partition.values()))) if by_partition else None
                check_manual_replicas(replicas, brokers, factor)
                by_partition[partition] = tuple(replicas)
            if sorted(by_partition) != list(range(len(by_partition))):
                raise KafkaError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    "partitions should be a consecutive 0-based integer sequence",
                )
            return [by_partition[partition] for partition in range(len(by_partition))]
        if new.replication_factor < DEFAULT or new.replication_factor == 0:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if new.num_partitions < DEFAULT or new.num_partitions == 0:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                "Number of partitions was set to an invalid non-positive value.",
            )
        factor = new.replication_factor
        if factor == DEFAULT:
            factor = self._config["default.replication.factor"]
        racks = {broker.id: broker.rack for broker in brokers.values()}
        return assign_replicas(racks, self._partition_count(new), factor, chance=self._chance)

    def _new_partition(self, replicas: tuple[int, ...]) -> PartitionState:
        return PartitionState(
            leader=replicas[0],
            leader_epoch=0,
            isr=replicas,
            replicas=replicas,
            controller_epoch=self._writer.controller_epoch,
        )

    async def _commit(self, topics: Sequence[Topic]) -> None:
        """Write new topics and publish them."""
        operations: list[Operation] = []
        for topic in topics:
            operations.append(Create(znodes.topic_path(topic.name), _topic_data(topic)))
            operations.append(Create(znodes.partitions_path(topic.name)))
            operations += _partition_nodes(topic, 0)
            operations.append(
                Create(znodes.topic_config_path(topic.name), znodes.encode_config(topic.configs))
            )
        await self._writer.commit(operations)
        self._writer.publish(self._writer.image.with_topics(topics))

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
                    topic = self._plan_more(more)
                    if not validate_only:
                        await self._commit_more(topic)
                    results[more.topic] = None
                except KafkaError as error:
                    results[more.topic] = error
                await asyncio.sleep(0)  # other connections have their turn between two topics
        return results

    def _plan_more(self, more: MorePartitions) -> Topic:
        topic = self._writer.image.topics.get(more.topic)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        present = len(topic.partitions)
        additional = more.count - present
        if additional == 0:
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
        if additional < 0:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {topic.name} currently has {present} partition(s); "
                f"{more.count} would not be an increase.",
            )
        if additional > MAX_PARTITIONS_PER_REQUEST:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
            )
        factor = len(topic.partitions[0].replicas)
        brokers = self._writer.image.brokers
        if more.assignments is None:
            racks = {broker.id: broker.rack for broker in brokers.values()}
            replicas = assign_replicas(
                racks, additional, factor, start_partition=present, chance=self._chance
            )
        else:
            if len(more.assignments) != additional:
                raise KafkaError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"Attempted to add {additional} additional partition(s), but only "
                    f"{len(more.assignments)} assignment(s) were specified.",
                )
            for assignment in more.assignments:
                check_manual_replicas(assignment, brokers, factor)
            replicas = [tuple(assignment) for assignment in more.assignments]
        added = tuple(self._new_partition(each) for each in replicas)
        return replace(topic, partitions=topic.partitions + added, version=topic.version + 1)

    async def _commit_more(self, topic: Topic) -> None:
        present = len(self._writer.image.topics[topic.name].partitions)
        await self._writer.commit(
            [
                SetData(znodes.topic_path(topic.name), _topic_data(topic), topic.version - 1),
                *_partition_nodes(topic, present),
            ]
        )
        self._writer.publish(self._writer.image.with_topics([topic]))

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
        self._writer.publish(self._writer.image.with_topics(deleted=[name]))
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
    for index in range(first, len(topic.partitions)):
        state = topic.partitions[index]
        yield Create(znodes.partition_path(topic.name, index))
        yield Create(
            znodes.partition_state_path(topic.name, index),
            znodes.encode_state(
                LeaderAndIsr(state.leader, state.leader_epoch, state.isr, state.controller_epoch)
            ),
        )


def _in_groups(topics: Sequence[Topic]) -> Iterator[list[Topic]]:
    """The topics in groups of about `_PARTITIONS_AT_ONCE` partitions."""
    group: list[Topic] = []
    partitions = 0
    for topic in topics:
        group.append(topic)
        partitions += len(topic.partitions)
        if partitions >= _PARTITIONS_AT_ONCE:
            yield group
            group, partitions = [], 0
    if group:
        yield group
