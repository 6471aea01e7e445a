"""Plans for topics and partitions: checked against the image, nothing changed yet.

Checks come in Kafka's order (ReplicationControlManager.createTopics and .createPartitions), so that a topic
that is wrong in several ways is refused for the same reason.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.values import check_topic_configs
from kafkapy.controller.assignment import assign_replicas, check_manual_replicas
from kafkapy.metadata.image import MetadataImage, PartitionState, Topic
from kafkapy.metadata.topic_names import (
    GROUP_METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
    collision_key,
    why_invalid,
)
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import random_uuid

DEFAULT = -1
"""A number of partitions or replicas that is left to the broker."""

MAX_PARTITIONS_PER_REQUEST = 10_000
PARTITIONS_AT_ONCE = 64
"""What the event loop waits for when topics of one request are created."""


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
    """A topic that is to have `count` partitions.

    `assignments` are the replicas of the new ones.
    """

    topic: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


class TopicPlanner:
    """Plans topics and partitions. A plan raises KafkaError where it is refused."""

    def __init__(self, config: BrokerConfig, chance: random.Random) -> None:
        self._config = config
        self._chance = chance

    def in_groups(self, wanted: Sequence[NewTopic]) -> list[list[NewTopic]]:
        """Topics that are committed and published together.

        Raises:
            KafkaError: POLICY_VIOLATION for a request beyond all measure, which is refused as a whole.
        """
        groups: list[list[NewTopic]] = [[]]
        total = in_group = 0
        for new in wanted:
            if in_group >= PARTITIONS_AT_ONCE:
                groups.append([])
                in_group = 0
            partitions = self._partition_count(new)
            total += partitions
            in_group += partitions
            groups[-1].append(new)
        if total > MAX_PARTITIONS_PER_REQUEST:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
            )
        return groups

    def automatic(self, name: str, image: MetadataImage) -> NewTopic:
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
        replicas = max(1, min(replicas, len(image.brokers)))
        return NewTopic(name, partitions, replicas, configs=configs)

    def new_topic(
        self,
        new: NewTopic,
        image: MetadataImage,
        collisions: Mapping[str, str],
        controller_epoch: int,
    ) -> Topic:
        """The topic that `new` becomes.

        `collisions` has the topics planned with it: their names by collision key.
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
        partitions = tuple(
            _new_partition(replicas, controller_epoch) for replicas in self._replicas(new, image)
        )
        return Topic(new.name, random_uuid(), partitions, configs)

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

    def grown_topic(self, more: MorePartitions, image: MetadataImage, controller_epoch: int) -> Topic:
        """The topic with its new partitions."""
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
        brokers = image.brokers
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
        added = tuple(_new_partition(each, controller_epoch) for each in replicas)
        return replace(topic, partitions=topic.partitions + added, version=topic.version + 1)

    def _partition_count(self, new: NewTopic) -> int:
        if new.assignments:
            return len(new.assignments)
        return (
            int(self._config["num.partitions"])
            if new.num_partitions == DEFAULT
            else max(new.num_partitions, 0)
        )


def _new_partition(replicas: tuple[int, ...], controller_epoch: int) -> PartitionState:
    return PartitionState(
        leader=replicas[0], leader_epoch=0, isr=replicas, replicas=replicas, controller_epoch=controller_epoch
    )
