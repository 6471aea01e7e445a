"""Plans new topics and partitions: checks them against the image and changes nothing.

The checks are in Kafka's order (ReplicationControlManager.createTopics and .createPartitions), so that a
topic with several errors gets the same one.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.values import check_topic_configs
from kafkapy.controller.assignment import assign_replicas, check_manual_replicas
from kafkapy.metadata.image import NO_LEADER, NO_NODE, MetadataImage, PartitionState, Topic
from kafkapy.policies import TopicRequest
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.topic_names import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    collision_key,
    why_invalid,
)
from kafkapy.protocol.types import random_uuid

DEFAULT = -1
"""The number of partitions or replicas is the broker's default."""

MAX_PARTITIONS_PER_REQUEST = 10_000
PARTITIONS_AT_ONCE = 64
"""A group of topics with so many partitions is complete: it is created in one turn of the event loop."""


@dataclass(slots=True)
class NewTopic:
    """A topic to create; `assignments` are pairs of a partition and its replicas."""

    name: str
    num_partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(slots=True)
class MorePartitions:
    """A topic that is to grow to `count` partitions.

    `assignments` are the replicas of the new partitions; None lets the broker choose them.
    """

    topic: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


class TopicPlanner:
    """Plans topics and partitions.

    `new_topic` and `grown_topic` raise KafkaError if the topic is refused.
    """

    def __init__(self, config: BrokerConfig, chance: random.Random) -> None:
        self._config = config
        self._chance = chance

    def in_groups(self, wanted: Sequence[NewTopic]) -> list[list[NewTopic]]:
        """The topics in groups, each of which is committed and published together.

        Raises:
            KafkaError: POLICY_VIOLATION, the request has more than MAX_PARTITIONS_PER_REQUEST partitions.
        """
        groups: list[list[NewTopic]] = [[]]
        total = in_group = 0
        for new in wanted:
            if in_group >= PARTITIONS_AT_ONCE:
                groups.append([])
                in_group = 0
            partitions = self._partition_count(new)
            total += partitions
            in_group += max(partitions, 1)  # one that is refused for its number takes time too
            groups[-1].append(new)
        if total > MAX_PARTITIONS_PER_REQUEST:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
            )
        return groups

    def automatic(self, name: str, image: MetadataImage) -> NewTopic:
        """The topic to create for a name that is not in `image`.

        An internal topic is created even if there are fewer brokers than its replication factor.
        """
        new = automatic_topic(name, self._config)
        if new.replication_factor != DEFAULT:
            new.replication_factor = max(1, min(new.replication_factor, len(image.brokers)))
        return new

    def new_topic(
        self,
        new: NewTopic,
        image: MetadataImage,
        collisions: Mapping[str, str],
        controller_epoch: int,
        live: Collection[int],
    ) -> Topic:
        """The topic that `new` describes.

        `collisions` has the names of the topics that are planned together, by collision key. `live` are the
        brokers whose replicas are in sync from the start.
        """
        message = why_invalid(new.name)
        if message is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
        if new.name in image.topics:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{new.name}' already exists.")
        key = collision_key(new.name)
        if key is not None:
            other = image.collisions.get(key) or collisions.get(key)
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
        partitions = _new_partitions(self._replicas(new, image), controller_epoch, live)
        return Topic(new.name, random_uuid(), partitions, configs)

    def for_policy(self, new: NewTopic) -> TopicRequest:
        """A valid topic for a policy: Kafka leaves out counts if there is an assignment."""
        configs = {name: value for name, value in new.configs.items() if value is not None}
        if new.assignments:
            assignments = {partition: tuple(replicas) for partition, replicas in new.assignments}
            return TopicRequest(new.name, None, None, assignments, configs)
        factor = new.replication_factor
        if factor == DEFAULT:
            factor = self._config["default.replication.factor"]
        return TopicRequest(new.name, self._partition_count(new), factor, None, configs)

    def _replicas(self, new: NewTopic, image: MetadataImage) -> list[tuple[int, ...]]:
        """The replicas of each partition of a new topic."""
        brokers = image.brokers
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

    def grown_topic(
        self, more: MorePartitions, image: MetadataImage, controller_epoch: int, live: Collection[int]
    ) -> Topic:
        """The topic with its new partitions; `live` is that of `new_topic`."""
        topic = image.topics.get(more.topic)
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
        if factor == 0:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Topic {topic.name} has no partition 0 to go by."
            )
        brokers = image.brokers
        if more.assignments is None:
            racks = {broker.id: broker.rack for broker in brokers.values()}
            replicas = assign_replicas(
                racks,
                additional,
                factor,
                start_partition=present,
                continues=topic.partitions[0].replicas[0],
                chance=self._chance,
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
        added = _new_partitions(replicas, controller_epoch, live)
        return replace(topic, partitions=topic.partitions + added, version=topic.version + 1)

    def _partition_count(self, new: NewTopic) -> int:
        if new.assignments:
            return len(new.assignments)
        return (
            int(self._config["num.partitions"])
            if new.num_partitions == DEFAULT
            else max(new.num_partitions, 0)
        )


def automatic_topic(name: str, config: BrokerConfig) -> NewTopic:
    """The topic that Kafka's AutoTopicCreationManager would create for a name."""
    if name == GROUP_METADATA_TOPIC:
        return NewTopic(
            name,
            config["offsets.topic.num.partitions"],
            config["offsets.topic.replication.factor"],
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config["offsets.topic.segment.bytes"]),
            },
        )
    if name == TRANSACTION_STATE_TOPIC:
        return NewTopic(
            name,
            config["transaction.state.log.num.partitions"],
            config["transaction.state.log.replication.factor"],
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config["transaction.state.log.min.isr"]),
                "segment.bytes": str(config["transaction.state.log.segment.bytes"]),
                "unclean.leader.election.enable": "false",
            },
        )
    if name == SHARE_GROUP_STATE_TOPIC:
        return NewTopic(
            name,
            config["share.coordinator.state.topic.num.partitions"],
            config["share.coordinator.state.topic.replication.factor"],
            configs={
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": str(config["share.coordinator.state.topic.min.isr"]),
                "retention.ms": "-1",
                "segment.bytes": str(config["share.coordinator.state.topic.segment.bytes"]),
            },
        )
    return NewTopic(name)


def _new_partitions(
    replicas: Iterable[tuple[int, ...]], controller_epoch: int, live: Collection[int]
) -> tuple[PartitionState, ...]:
    """The partitions with these replicas; those that have the same share their state."""
    states: dict[tuple[int, ...], PartitionState] = {}
    partitions = []
    for each in replicas:
        if each not in states:
            states[each] = _new_partition(each, controller_epoch, live)
        partitions.append(states[each])
    return tuple(partitions)


def _new_partition(replicas: tuple[int, ...], controller_epoch: int, live: Collection[int]) -> PartitionState:
    isr = tuple(broker for broker in replicas if broker in live)
    if not isr:  # the first of its brokers that comes back leads
        return PartitionState(NO_LEADER, 0, (), replicas, version=NO_NODE)
    return PartitionState(
        leader=isr[0], leader_epoch=0, isr=isr, replicas=replicas, controller_epoch=controller_epoch
    )
