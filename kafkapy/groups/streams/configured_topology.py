"""A configured topology: partitions, tasks, and internal topics to create.

1. All source topics must exist (MISSING_SOURCE_TOPICS).
2. A repartition topic without a number of partitions gets the largest one of the sources of the subtopology
   that writes it. That may be a repartition topic too, so one number follows from the other.
3. Topics that are joined must have the same number of partitions. Repartition topics without a number of
   their own are adapted to the others; if that is not possible: INCORRECTLY_PARTITIONED_TOPICS.
4. A changelog has as many partitions as its subtopology has tasks: the largest number of its sources.
5. Internal topics that do not exist are to be created (MISSING_INTERNAL_TOPICS). Others must have the right
   number of partitions.

Source: Apache Kafka's InternalTopicManager, RepartitionTopics, CopartitionedTopicsEnforcer, ChangelogTopics.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from kafkapy.groups.streams.topology import InternalTopic, Topology, invalid

MOST_TASKS: Final = 100_000
"""The most active tasks of a group. Apache Kafka has no limit."""
SHOWN: Final = 3
"""The topics that a message names."""

PartitionCount = Callable[[str], int | None]
"""The number of partitions of a topic; None if it does not exist."""


class Status(IntEnum):
    """What keeps a group or a member from running, with the codes of StreamsGroupHeartbeat."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


@dataclass(frozen=True, slots=True)
class Problem:
    """What keeps the topology from running."""

    status: Status
    detail: str


class _ProblemError(Exception):
    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.problem = Problem(status, detail)


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """A topology with its tasks and topics."""

    topology: Topology
    problem: Problem | None
    """None if all topics are there."""
    num_tasks: Mapping[str, int] = field(default_factory=dict)
    """The number of tasks of each subtopology; empty if it is not known."""
    num_partitions: Mapping[str, int] = field(default_factory=dict)
    """The number of partitions of each internal topic."""
    missing: tuple[InternalTopic, ...] = ()
    """The internal topics to create, with their numbers of partitions."""

    @property
    def is_ready(self) -> bool:
        """Whether tasks can run."""
        return self.problem is None


def configure(topology: Topology, partition_count: PartitionCount) -> ConfiguredTopology:
    """The configured topology.

    Raises:
        KafkaError: STREAMS_INVALID_TOPOLOGY, it cannot be run whatever topics there are.
    """
    try:
        return _configure(topology, partition_count)
    except _ProblemError as error:
        return ConfiguredTopology(topology, error.problem)


def _configure(topology: Topology, existing: PartitionCount) -> ConfiguredTopology:
    subtopologies = topology.subtopologies.values()
    missing_sources = sorted(
        {name for each in subtopologies for name in each.source_topics if existing(name) is None}
    )
    if missing_sources:
        raise _ProblemError(
            Status.MISSING_SOURCE_TOPICS, f"Source topics {_summary(missing_sources)} are missing."
        )
    decided = _repartition_counts(topology, existing)

    def count(name: str) -> int:
        found = existing(name)
        return decided[name] if found is None else found

    _enforce_copartitioning(topology, decided, count)
    num_tasks = {each.subtopology_id: max(map(count, each.all_sources)) for each in subtopologies}
    if sum(num_tasks.values()) > MOST_TASKS:
        raise invalid(f"The topology has more than {MOST_TASKS} tasks.")
    num_partitions: dict[str, int] = {}
    internal: dict[str, InternalTopic] = {}
    for subtopology in subtopologies:
        for topic in subtopology.repartition_sources:
            num_partitions[topic.name] = topic.num_partitions or decided[topic.name]
            internal[topic.name] = topic
        for topic in subtopology.changelogs:
            num_partitions[topic.name] = num_tasks[subtopology.subtopology_id]
            internal[topic.name] = topic
    missing = []
    for name, topic in internal.items():
        found, expected = existing(name), num_partitions[name]
        if found is None:
            missing.append(InternalTopic(name, expected, topic.replication_factor, topic.configs))
        elif found != expected:
            raise _ProblemError(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: "
                f"expected {expected}, found {found}",
            )
    problem = None
    if missing:
        names = sorted(topic.name for topic in missing)
        problem = Problem(Status.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {_summary(names)}")
    return ConfiguredTopology(topology, problem, num_tasks, num_partitions, tuple(missing))


def _repartition_counts(topology: Topology, existing: PartitionCount) -> dict[str, int]:
    """The number of partitions of each repartition topic.

    A subtopology whose sources are all unknown waits for one of them.
    """
    decided: dict[str, int] = {}
    for subtopology in topology.subtopologies.values():
        for topic in subtopology.repartition_sources:
            if topic.num_partitions:
                decided[topic.name] = topic.num_partitions
    readers: dict[str, list[str]] = {}
    for subtopology in topology.subtopologies.values():
        for topic in subtopology.repartition_sources:
            readers.setdefault(topic.name, []).append(subtopology.subtopology_id)
    left = deque(topology.subtopologies)
    done: set[str] = set()
    while left:
        subtopology = topology.subtopologies[left.popleft()]
        if subtopology.subtopology_id in done:
            continue
        known = [decided[each.name] for each in subtopology.repartition_sources if each.name in decided]
        known += [found for name in subtopology.source_topics if (found := existing(name)) is not None]
        if not known:
            continue
        done.add(subtopology.subtopology_id)
        for sink in subtopology.repartition_sinks:
            if sink not in decided:
                decided[sink] = max(known)
                left.extend(readers.get(sink, ()))
    for subtopology in topology.subtopologies.values():
        if any(sink not in decided for sink in subtopology.repartition_sinks):
            raise invalid(
                "Failed to compute number of partitions for all repartition topics. "
                "There may be loops in the topology that cannot be resolved."
            )
        if any(topic.name not in decided for topic in subtopology.repartition_sources):
            raise invalid(
                "Failed to compute number of partitions for all repartition topics, because "
                "a repartition source topic is never used as a sink topic."
            )
    return decided


def _enforce_copartitioning(topology: Topology, decided: dict[str, int], count: Callable[[str], int]) -> None:
    """Give repartition topics the number of partitions of the topics that they are joined with."""
    repartition = {
        topic.name: topic.num_partitions
        for subtopology in topology.subtopologies.values()
        for topic in subtopology.repartition_sources
    }
    for subtopology in topology.subtopologies.values():
        for group in subtopology.copartitioned():
            fixed = [name for name in group if repartition.get(name)]
            sources = [name for name in group if name not in repartition]
            if not group:
                continue
            if sources:
                wanted = _same({name: count(name) for name in sources})
            elif fixed:
                wanted = _same({name: count(name) for name in fixed})
            else:
                wanted = max(map(count, group))
            for name in fixed:
                if count(name) != wanted:
                    raise _ProblemError(
                        Status.INCORRECTLY_PARTITIONED_TOPICS,
                        f"Number of partitions [{count(name)}] of repartition topic [{name}] "
                        f"doesn't match number of partitions [{wanted}] of the source topic.",
                    )
            decided.update((name, wanted) for name in group if name in repartition)


def _same(counts: Mapping[str, int]) -> int:
    """The one number of partitions that all of these topics have."""
    wanted = next(iter(counts.values()))
    if any(found != wanted for found in counts.values()):
        shown = ", ".join(f"{name}={found}" for name, found in sorted(counts.items())[:SHOWN])
        raise _ProblemError(
            Status.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{shown}}}]",
        )
    return wanted


def _summary(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:SHOWN])
    more = len(names) - SHOWN
    return f"{shown} and {more} additional topics" if more > 0 else shown
