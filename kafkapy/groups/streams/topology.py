"""The topology of a Kafka Streams application: subtopologies and their topics.

A member sends the topology when it joins, and the group keeps it in a record. The fields of both messages
have the same names. An internal topic with 0 partitions gets as many as its subtopology needs. If its
replication factor is 0, it gets the broker's.

Source: Apache Kafka's StreamsTopology; KIP-1071.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafkapy.groups.member_total import text_bytes
from kafkapy.logs.text import listed
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages import streams_group_records as stored
from kafkapy.protocol.topic_names import is_internal, is_valid

LARGEST: Final = 5_000
"""The most names, expressions, settings and copartitioned topics of a topology.

Larger ones would hold the event loop.
"""
ITEM_BYTES: Final = 250
"""The memory that a name, a setting or a copartitioned topic takes, besides its text."""


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic that only the application uses, and that the coordinator creates."""

    name: str
    num_partitions: int = 0
    replication_factor: int = 0
    configs: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, info: Any) -> InternalTopic:
        """The topic of a message."""
        configs = tuple((each.key, each.value) for each in info.topic_configs)
        return cls(info.name, info.partitions, info.replication_factor, configs)

    def record(self) -> stored.TopicInfo:
        """The topic in the group's record."""
        return stored.TopicInfo(
            name=self.name,
            partitions=self.num_partitions,
            replication_factor=self.replication_factor,
            topic_configs=[stored.TopicConfig(key=key, value=value) for key, value in self.configs],
        )


@dataclass(frozen=True, slots=True)
class CopartitionGroup:
    """Source topics that must have the same number of partitions, by their places in the lists."""

    source_topics: tuple[int, ...]
    source_topic_regex: tuple[int, ...]
    repartition_source_topics: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A part of a topology that shares no topic with others: one task for each partition."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    source_topic_regex: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    copartition_groups: tuple[CopartitionGroup, ...]

    @classmethod
    def read(cls, message: Any) -> Subtopology:
        """The subtopology of a message."""
        return cls(
            message.subtopology_id,
            tuple(message.source_topics),
            tuple(message.source_topic_regex),
            tuple(map(InternalTopic.read, message.state_changelog_topics)),
            tuple(message.repartition_sink_topics),
            tuple(map(InternalTopic.read, message.repartition_source_topics)),
            tuple(
                CopartitionGroup(
                    tuple(group.source_topics),
                    tuple(group.source_topic_regex),
                    tuple(group.repartition_source_topics),
                )
                for group in message.copartition_groups
            ),
        )

    def record(self) -> stored.Subtopology:
        """The subtopology in the group's record."""
        return stored.Subtopology(
            subtopology_id=self.subtopology_id,
            source_topics=list(self.source_topics),
            source_topic_regex=list(self.source_topic_regex),
            state_changelog_topics=[topic.record() for topic in self.changelogs],
            repartition_sink_topics=list(self.repartition_sinks),
            repartition_source_topics=[topic.record() for topic in self.repartition_sources],
            copartition_groups=[
                stored.CopartitionGroup(
                    source_topics=list(group.source_topics),
                    source_topic_regex=list(group.source_topic_regex),
                    repartition_source_topics=list(group.repartition_source_topics),
                )
                for group in self.copartition_groups
            ],
        )

    @property
    def all_sources(self) -> tuple[str, ...]:
        """The names of the topics that it reads, internal ones too."""
        return (*self.source_topics, *(topic.name for topic in self.repartition_sources))

    @property
    def is_stateful(self) -> bool:
        """Whether it has state, which standby tasks can copy."""
        return bool(self.changelogs)

    def copartitioned(self) -> Iterator[frozenset[str]]:
        """The groups of topics that must have the same number of partitions."""
        for group in self.copartition_groups:
            yield frozenset(
                (
                    *(self.source_topics[place] for place in group.source_topics),
                    *(self.repartition_sources[place].name for place in group.repartition_source_topics),
                )
            )


@dataclass(frozen=True, slots=True)
class Topology:
    """The subtopologies of an application."""

    epoch: int
    subtopologies: Mapping[str, Subtopology]
    subtopology_of: Mapping[str, str] = field(compare=False)
    """The subtopology that reads a topic."""
    required_topics: frozenset[str] = field(compare=False)
    """All topics that must exist."""
    nbytes: int = field(compare=False)
    """About how many bytes of memory it takes."""

    @classmethod
    def read(cls, message: Any) -> Topology:
        """The topology of a heartbeat or of a record."""
        subtopologies = {each.subtopology_id: Subtopology.read(each) for each in message.subtopologies}
        return cls(
            message.epoch,
            subtopologies,
            {
                topic: subtopology_id
                for subtopology_id, subtopology in subtopologies.items()
                for topic in subtopology.all_sources
            },
            frozenset(
                name
                for subtopology in subtopologies.values()
                for name in (*subtopology.all_sources, *(topic.name for topic in subtopology.changelogs))
            ),
            topology_bytes(message),
        )

    def record(self) -> stored.StreamsGroupTopologyValue:
        """The value of the group's record."""
        return stored.StreamsGroupTopologyValue(
            epoch=self.epoch, subtopologies=[each.record() for each in self.subtopologies.values()]
        )


def topology_bytes(message: Any) -> int:
    """About how many bytes of memory the topology of a heartbeat or of a record takes."""
    return sum(
        ITEM_BYTES * _size(each)
        + text_bytes(each.subtopology_id, *_names(each), *each.source_topic_regex)
        + sum(
            text_bytes(setting.key, setting.value)
            for topic in (*each.repartition_source_topics, *each.state_changelog_topics)
            for setting in topic.topic_configs
        )
        for each in message.subtopologies
    )


def require_valid(message: Any) -> None:
    """Raise KafkaError if the topology of a heartbeat cannot be run, whatever topics there are."""
    size = sum(_size(each) for each in message.subtopologies)
    if size > LARGEST:
        raise invalid(
            f"The topology has {size} topics, settings and copartitioned topics, "
            f"but the broker takes at most {LARGEST}."
        )
    if message.epoch < 0:
        raise invalid("Topology epoch must be non-negative.")
    names = dict.fromkeys(name for each in message.subtopologies for name in _names(each))
    if prohibited := [name for name in names if is_internal(name)]:
        raise invalid(
            f"Use of Kafka internal topics {listed(prohibited)} in a Kafka Streams topology is prohibited."
        )
    if unusable := [name for name in names if not is_valid(name)]:
        raise invalid(f"Topic names {listed(unusable)} are not valid topic names.")
    known: set[str] = set()
    for subtopology in message.subtopologies:
        if subtopology.subtopology_id in known:
            raise invalid(f"There are two subtopologies {subtopology.subtopology_id}.")
        known.add(subtopology.subtopology_id)
        _require_valid_subtopology(subtopology)


def _require_valid_subtopology(subtopology: Any) -> None:
    for topic in subtopology.state_changelog_topics:
        if topic.partitions != 0:
            raise invalid(
                f"Changelog topic {topic.name} must have an undefined partition count, "
                f"but it is set to {topic.partitions}."
            )
    for topic in subtopology.repartition_source_topics:
        if topic.partitions < 0:
            raise invalid(f"Repartition topic {topic.name} cannot have {topic.partitions} partitions.")
    if not subtopology.source_topics and not subtopology.repartition_source_topics:
        raise invalid(f"No source topics found for subtopology {subtopology.subtopology_id}")
    for group in subtopology.copartition_groups:
        for places, topics in (
            (group.source_topics, subtopology.source_topics),
            (group.repartition_source_topics, subtopology.repartition_source_topics),
        ):
            if any(not 0 <= place < len(topics) for place in places):
                raise invalid(
                    f"A copartition group of subtopology {subtopology.subtopology_id} names topics that it "
                    "does not have."
                )


def invalid(message: str) -> KafkaError:
    """The error of a topology that cannot be run."""
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


def _names(subtopology: Any) -> Iterator[str]:
    yield from subtopology.source_topics
    yield from subtopology.repartition_sink_topics
    for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
        yield topic.name


def _size(subtopology: Any) -> int:
    internal = (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics)
    return (
        1
        + len(subtopology.source_topics)
        + len(subtopology.source_topic_regex)
        + len(subtopology.repartition_sink_topics)
        + sum(1 + len(topic.topic_configs) for topic in internal)
        + sum(
            1
            + len(group.source_topics)
            + len(group.source_topic_regex)
            + len(group.repartition_source_topics)
            for group in subtopology.copartition_groups
        )
    )
