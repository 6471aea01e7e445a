"""The controller's knowledge beside the metadata image: live brokers, and states.

None of it is in the metadata tree, so a new controller begins with nothing and finds it out again. Source:
Kafka's ControllerContext.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from kafkapy.metadata.image import Broker, Topic
from kafkapy.protocol.types import TopicPartition


class PartitionStatus(Enum):
    """The states of a partition (`partition_states.py`)."""

    NON_EXISTENT = "NonExistent"
    NEW = "New"
    ONLINE = "Online"
    OFFLINE = "Offline"


class ReplicaStatus(Enum):
    """The states of a replica (`replica_states.py`)."""

    NON_EXISTENT = "NonExistent"
    NEW = "New"
    ONLINE = "Online"
    OFFLINE = "Offline"
    DELETION_STARTED = "DeletionStarted"
    DELETION_SUCCESSFUL = "DeletionSuccessful"
    DELETION_INELIGIBLE = "DeletionIneligible"


class Replica(NamedTuple):
    """A replica: a partition on a broker."""

    topic: str
    partition: int
    broker: int


@dataclass(slots=True)
class Deletion:
    """A topic that is being deleted; the image does not show it any more.

    `by_hand` means that somebody has deleted its nodes already. `left` is how many replicas are not deleted.
    """

    topic: Topic
    by_hand: bool = False
    is_due: bool = True
    """Whether brokers that can be asked have not been asked yet."""
    left: int = 0

    def __post_init__(self) -> None:
        self.left = sum(len(state.replicas) for state in self.topic.partitions)


@dataclass(slots=True)
class ControllerContext:
    """The volatile state of one controller, from its election on."""

    brokers: dict[int, Broker] = field(default_factory=dict)
    """The live brokers with the epochs that this controller has acted on, those shutting down among them."""
    shutting_down: set[int] = field(default_factory=set)
    restarted: set[int] = field(default_factory=set)
    """The brokers that have started since the controllers last acted on them, until that is done."""
    offline: dict[int, set[TopicPartition]] = field(default_factory=dict)
    """For a broker, its replicas whose logs cannot be used: the log directory failed, or has no room."""
    partitions: dict[TopicPartition, PartitionStatus] = field(default_factory=dict)
    """The states of partitions; those that do not exist are missing."""
    replicas: dict[Replica, ReplicaStatus] = field(default_factory=dict)
    """The states of replicas; those that do not exist are missing."""
    deletions: dict[str, Deletion] = field(default_factory=dict)

    def is_live(self, broker: int) -> bool:
        """Whether a broker is live and is not shutting down."""
        return broker in self.brokers and broker not in self.shutting_down

    def is_alive(self, broker: int, partition: TopicPartition) -> bool:
        """Whether a replica can be reached; its broker may be shutting down."""
        return broker in self.brokers and partition not in self.offline.get(broker, ())

    def is_online(self, broker: int, partition: TopicPartition) -> bool:
        """Whether a replica may lead and be in sync: its broker is not shutting down either."""
        return broker not in self.shutting_down and self.is_alive(broker, partition)

    def alive(self, replicas: Iterable[int], partition: TopicPartition) -> tuple[int, ...]:
        """Those of the replicas that can be reached."""
        return tuple(broker for broker in replicas if self.is_alive(broker, partition))

    def online(self, replicas: Iterable[int], partition: TopicPartition) -> tuple[int, ...]:
        """Those of the replicas that may lead and be in sync."""
        return tuple(broker for broker in replicas if self.is_online(broker, partition))

    def differing(self, brokers: Mapping[int, Broker]) -> tuple[list[int], list[Broker]]:
        """The brokers that are gone, and those that came, compared with those that are registered.

        A broker with another epoch is in both.
        """
        gone = [
            id_
            for id_, known in self.brokers.items()
            if id_ not in brokers or brokers[id_].epoch != known.epoch
        ]
        came = [broker for id_, broker in sorted(brokers.items()) if id_ not in self.brokers or id_ in gone]
        return gone, came

    def remove_brokers(self, gone: Iterable[int]) -> None:
        for broker in gone:
            del self.brokers[broker]
            self.shutting_down.discard(broker)
            self.restarted.discard(broker)
            self.offline.pop(broker, None)

    def add_brokers(self, came: Iterable[Broker]) -> None:
        for broker in came:
            self.brokers[broker.id] = broker
            self.restarted.add(broker.id)

    def forget_topic(self, topic: Topic) -> None:
        """Forget the states of a topic's partitions and replicas."""
        for index, state in enumerate(topic.partitions):
            self.partitions.pop(TopicPartition(topic.name, index), None)
            for broker in state.replicas:
                self.replicas.pop(Replica(topic.name, index, broker), None)
