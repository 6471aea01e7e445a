"""Topics of a cluster: their partitions, offsets and sizes.

The metadata of all topics are asked for in one request, and kept for a moment. Offsets and sizes are asked
for those partitions alone that a view shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafkapy.commands.connection.failures import check, code_name
from kafkapy.errors import UserError
from kafkapy.page.cluster.remembered import Remembered
from kafkapy.page.cluster.wire import Wire
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkapy.protocol.types import Uuid

_MOST_AT_ONCE: Final = 2000
"""Partitions in one request, so that no answer keeps a broker busy for long."""


class Place(NamedTuple):
    """A partition."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition, as the metadata have it; without a leader, `leader` is -1."""

    number: int
    leader: int
    epoch: int
    replicas: Sequence[int]
    isr: Sequence[int]
    offline: Sequence[int]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, as the metadata have it."""

    name: str
    is_internal: bool
    partitions: Sequence[Partition]
    error: str | None
    id: Uuid

    @property
    def places(self) -> list[Place]:
        return [Place(self.name, partition.number) for partition in self.partitions]

    @property
    def replication_factor(self) -> int:
        return max((len(partition.replicas) for partition in self.partitions), default=0)

    @property
    def under_replicated(self) -> int:
        """Partitions of which a replica is not in sync."""
        return sum(len(partition.isr) < len(partition.replicas) for partition in self.partitions)

    @property
    def leaderless(self) -> int:
        return sum(partition.leader < 0 for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker, as the metadata have it."""

    id: int
    address: str
    rack: str | None


@dataclass(frozen=True)
class Metadata:
    """What all brokers know of the cluster."""

    cluster_id: str | None
    controller: int
    brokers: Sequence[Broker]
    topics: Mapping[str, Topic]

    @property
    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics.values())


class Topics:
    """Asks for topics over a connection."""

    def __init__(self, wire: Wire, timeout: float) -> None:
        self._wire, self._timeout = wire, timeout
        self._metadata: Final = Remembered(self._read)

    def metadata(self) -> Metadata:
        """The metadata, as new as they can be had without waiting for long; raises UserError."""
        found = self._metadata.get(self._timeout)
        if found is None:
            raise UserError("the cluster does not answer in time")
        return found

    def topic(self, name: str) -> Topic:
        """One topic; raises UserError if it does not exist."""
        topic = self.metadata().topics.get(name)
        if topic is None:
            self.forget()  # it may be new
            topic = self.metadata().topics.get(name)
        if topic is None:
            raise UserError(f"there is no topic {name}, or this user may not see it")
        if topic.error is not None:
            raise UserError(f"topic {name}: {topic.error}")
        return topic

    def forget(self) -> None:
        """Ask anew: something was changed."""
        self._metadata.forget()

    def offsets(self, places: Iterable[Place], time: int) -> dict[Place, int]:
        """The offsets at a time, or at EARLIEST or LATEST, of partitions that have one."""
        by_leader: dict[int, list[Place]] = {}
        topics = self.metadata().topics
        for place in places:
            topic = topics.get(place.topic)
            partition = None if topic is None else _numbered(topic, place.partition)
            if partition is not None and partition.leader >= 0:
                by_leader.setdefault(partition.leader, []).append(place)
        found: dict[Place, int] = {}
        for leader, own in by_leader.items():
            for first in range(0, len(own), _MOST_AT_ONCE):
                found |= self._offsets(leader, own[first : first + _MOST_AT_ONCE], time)
        return found

    def sizes(self, places: Sequence[Place]) -> dict[Place, int] | None:
        """The bytes of each partition's log at its leader; None if this user may not see them."""
        if not places:
            return {}
        topics = self.metadata().topics
        leaders = {
            place: partition.leader
            for place in places
            if (topic := topics.get(place.topic)) and (partition := _numbered(topic, place.partition))
        }
        found: dict[Place, int] = {}
        for leader in sorted({leader for leader in leaders.values() if leader >= 0}):
            own = [place for place, its_leader in leaders.items() if its_leader == leader]
            results = self.log_dirs(leader, own)
            if results is None:
                return None
            for directory in results:
                for topic_ in directory.topics:
                    for each in topic_.partitions:
                        place = Place(topic_.name, each.partition_index)
                        if not each.is_future_key and leaders.get(place) == leader:
                            found[place] = each.partition_size
        return found

    def log_dirs(self, broker: int, places: Sequence[Place]) -> list[DescribeLogDirsResult] | None:
        """The log directories of a broker, with these partitions; None if they are not to be seen."""
        request = DescribeLogDirsRequest(
            topics=[
                DescribableLogDirTopic(topic=topic, partitions=partitions)
                for topic, partitions in _by_topic(places).items()
            ]
        )
        answer = self._wire.ask(request, DescribeLogDirsResponse, broker)
        if answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return None
        check(answer.error_code, None, f"broker {broker}")
        return answer.results

    def _offsets(self, leader: int, places: Sequence[Place], time: int) -> dict[Place, int]:
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsPartition(partition_index=number, timestamp=time) for number in numbers
                    ],
                )
                for topic, numbers in _by_topic(places).items()
            ],
            timeout_ms=round(self._timeout * 1000),
        )
        return {
            Place(topic.name, each.partition_index): each.offset
            for topic in self._wire.ask(request, ListOffsetsResponse, leader).topics
            for each in topic.partitions
            if not each.error_code and each.offset >= 0
        }

    def _read(self) -> Metadata:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        answer = self._wire.ask(request, MetadataResponse)
        topics = {
            topic.name or "": Topic(
                topic.name or "",
                topic.is_internal,
                [
                    Partition(
                        each.partition_index,
                        each.leader_id,
                        each.leader_epoch,
                        each.replica_nodes,
                        each.isr_nodes,
                        each.offline_replicas,
                    )
                    for each in sorted(topic.partitions, key=lambda each: each.partition_index)
                ],
                code_name(topic.error_code) if topic.error_code else None,
                topic.topic_id,
            )
            for topic in sorted(answer.topics, key=lambda topic: topic.name or "")
        }
        brokers = [
            Broker(each.node_id, f"{each.host}:{each.port}", each.rack)
            for each in sorted(answer.brokers, key=lambda each: each.node_id)
        ]
        return Metadata(answer.cluster_id, answer.controller_id, brokers, topics)


def _numbered(topic: Topic, number: int) -> Partition | None:
    # Partitions are numbered from 0 without gaps; a user who may see some of a topic may see all.
    return topic.partitions[number] if 0 <= number < len(topic.partitions) else None


def _by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for place in places:
        found.setdefault(place.topic, []).append(place.partition)
    return found
